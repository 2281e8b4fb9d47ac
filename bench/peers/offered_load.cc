// studies/pcp/offered_load.toml with TCP in ns-3 (3.37 and later): Poisson arrivals of 200-packet transfers.
//
//   source.0..99 ── left ══ 40 Mb/s, 2.5 ms, 100 packets ══ right ── sink.0..99      round trips of 15 to 35 ms
//
// A packet is 1250 bytes on the wire: 1196 of payload and 54 of headers (PPP 2, IP 20, TCP 20, timestamps 12). Flow
// completion time is from connect() to the receiver's last byte, for transfers that started between warmup and duration.
// Prints one JSON line.
#include "common.h"

static const uint32_t SEGMENT = 1196, TRANSFER = 200, PAIRS = 100;
static const double DURATION = 200, WARMUP = 20, DRAIN = 120, RATE = 40e6;

struct Transfer
{
    double start = 0, end = -1;
    uint64_t queued = 0, received = 0;
};

class Workload
{
  public:
    std::vector<Transfer> transfers;

    Workload(Dumbbell& dumbbell, double load)
        : m_net(dumbbell), m_gap(CreateObject<ExponentialRandomVariable>()), m_pair(CreateObject<UniformRandomVariable>())
    {
        m_gap->SetAttribute("Mean", DoubleValue(8.0 * 1250 * TRANSFER / (load * RATE)));
        for (uint32_t i = 0; i < PAIRS; i++)
        {
            Ptr<Socket> listener = Socket::CreateSocket(m_net.right.Get(i), TcpSocketFactory::GetTypeId());
            listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 5000));
            listener->Listen();
            listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                        MakeCallback(&Workload::Accept, this));
        }
        Simulator::Schedule(Seconds(m_gap->GetValue()), &Workload::Start, this);
    }

  private:
    Dumbbell& m_net;
    Ptr<ExponentialRandomVariable> m_gap;
    Ptr<UniformRandomVariable> m_pair;
    std::map<std::pair<uint32_t, uint16_t>, size_t> m_bySender; // address and port
    std::map<Ptr<Socket>, size_t> m_sending, m_receiving;

    void Start()
    {
        const uint32_t pair = m_pair->GetInteger(0, PAIRS - 1);
        Ptr<Socket> socket = Socket::CreateSocket(m_net.left.Get(pair), TcpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(m_net.leftAddress[pair], 0));
        Address name;
        socket->GetSockName(name);
        auto own = InetSocketAddress::ConvertFrom(name);
        m_bySender[{own.GetIpv4().Get(), own.GetPort()}] = transfers.size();
        m_sending[socket] = transfers.size();
        transfers.push_back({Simulator::Now().GetSeconds()});
        socket->SetConnectCallback(MakeCallback(&Workload::Send, this), MakeNullCallback<void, Ptr<Socket>>());
        socket->SetSendCallback(MakeCallback(&Workload::Room, this));
        socket->Connect(InetSocketAddress(m_net.rightAddress[pair], 5000));
        Time next = Seconds(m_gap->GetValue());
        if (Simulator::Now() + next <= Seconds(DURATION)) { Simulator::Schedule(next, &Workload::Start, this); }
    }
    void Room(Ptr<Socket> socket, uint32_t) { Send(socket); }
    void Send(Ptr<Socket> socket)
    {
        auto found = m_sending.find(socket);
        if (found == m_sending.end()) { return; }
        Transfer& transfer = transfers[found->second];
        while (transfer.queued < uint64_t(SEGMENT) * TRANSFER && socket->GetTxAvailable() >= SEGMENT)
        {
            if (socket->Send(Create<Packet>(SEGMENT)) <= 0) { return; }
            transfer.queued += SEGMENT;
        }
        if (transfer.queued == uint64_t(SEGMENT) * TRANSFER)
        {
            m_sending.erase(found);
            socket->Close();
        }
    }
    void Accept(Ptr<Socket> socket, const Address& from)
    {
        auto peer = InetSocketAddress::ConvertFrom(from);
        m_receiving[socket] = m_bySender.at({peer.GetIpv4().Get(), peer.GetPort()});
        socket->SetRecvCallback(MakeCallback(&Workload::Receive, this));
        socket->SetCloseCallbacks(MakeCallback(&Workload::PeerClosed, this), MakeNullCallback<void, Ptr<Socket>>());
    }
    void PeerClosed(Ptr<Socket> socket) { socket->Close(); }
    void Receive(Ptr<Socket> socket)
    {
        Transfer& transfer = transfers[m_receiving.at(socket)];
        while (Ptr<Packet> packet = socket->Recv())
        {
            if (packet->GetSize() == 0) { break; }
            transfer.received += packet->GetSize();
        }
        if (transfer.end < 0 && transfer.received == uint64_t(SEGMENT) * TRANSFER)
        {
            transfer.end = Simulator::Now().GetSeconds();
        }
    }
};

int
main(int argc, char** argv)
{
    double load = 0.15;
    CommandLine line;
    line.AddValue("load", "offered share of the bottleneck, whole packets counted", load);
    line.Parse(argc, argv); // --RngRun=N is the seed
    SetTcp(SEGMENT, 1);

    auto leftDelay = [](uint32_t i) { return Seconds(0.004 + 0.010 * (i + 0.5) / PAIRS); };
    Dumbbell net(PAIRS, DataRate("40Mbps"), MicroSeconds(2500), 100, leftDelay, MilliSeconds(1));
    Workload workload(net, load);
    Meter meter(net.bottleneck.Get(0), SEGMENT);
    Simulator::Schedule(Seconds(WARMUP), &Meter::Begin, &meter);
    Simulator::Schedule(Seconds(DURATION), &Meter::End, &meter);
    Simulator::Stop(Seconds(DURATION + DRAIN));
    const double wall = RunTimed();

    uint64_t completed = 0, unfinished = 0;
    double sum = 0, squares = 0;
    for (const Transfer& transfer : workload.transfers)
    {
        if (transfer.start < WARMUP) { continue; }
        if (transfer.end < 0) { unfinished++; continue; }
        const double response = transfer.end - transfer.start;
        completed++;
        sum += response;
        squares += response * response;
    }
    const double mean = sum / completed, deviation = std::sqrt((squares - completed * mean * mean) / (completed - 1));
    printf("{\"load\":%g,\"completed\":%lu,\"unfinished\":%lu,\"fct_mean_s\":%.5f,\"fct_sd_s\":%.5f,"
           "\"utilization\":%.4f,\"queue_mean_packets\":%.2f,\"drop_rate\":%.6f,\"data_packets\":%lu,\"wall_s\":%.3f}\n",
           load, completed, unfinished, mean, deviation, meter.Utilization(RATE, DURATION - WARMUP), meter.QueueMean(),
           meter.DropRate(), meter.data, wall);
    fflush(stdout);
    _exit(0); // skips the destruction of ns-3 objects
}
