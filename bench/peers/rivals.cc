// studies/rivals/ns3_bbr.toml and ns3_delays.toml in ns-3 3.37: long-lived flows of BBRv1, LEDBAT or Vegas over one
// bottleneck, alone or beside NewReno.
//
//   source.0 .. N-1 ── left ══ rate, 19 ms, buffer ══ right ── sink.0 .. N-1      40 ms of round trip
//
// A packet is 1500 bytes on the wire: 1446 of payload and 54 of headers (PPP 2, IP 20, TCP 20, timestamps 12), or 1458
// and 42 without timestamps. Receivers acknowledge each packet. Prints one JSON line.
#include "common.h"
#include "newreno.h"

// BBRv1 without six deviations of `TcpBbr` from Linux, of which later versions of ns-3 do not have 1, 2 and 3:
//
// 1. The interval of a rate sample starts at that of the sample before (`SkbDelivered` in tcp-rate-ops.cc): after a
//    timeout, with few packets in flight, the estimate of the bandwidth never recovers. Issue 1026.
// 2. A sample of less than the minimum round-trip time counts with the rate of the sample before. Issue 735.
// 3. Linux paces 1% below the rate. Issue 580.
// 4. All flows draw from random stream 4, so those that enter ProbeBW for the n-th time choose the same phase.
// 5. At the end of a recovery `TcpSocketBase` sets the window to `ssthresh`, which is the bandwidth-delay product at the
//    end of Startup; in Linux the window is the one before (`bbr_set_cwnd_to_recover_or_restore`). Here `ssthresh` is a
//    gigabyte, and BBR bounds the window by its target before the next packet leaves.
// 6. Another round-trip time that equals the minimum renews it, as in the draft, and in Linux until November 2020. Then
//    a lone flow never enters ProbeRTT. Here round-trip times grow by 1 ns every 10 ms.
class Bbr : public TcpBbr
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::Bbr").SetParent<TcpBbr>().AddConstructor<Bbr>();
        return id;
    }
    void NotifyConstructionCompleted() override
    {
        static uint32_t stream = 1000;
        TcpBbr::NotifyConstructionCompleted();
        SetStream(stream++);
    }
    void CongControl(Ptr<TcpSocketState> state, const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& said) override
    {
        TcpRateOps::TcpRateSample sample = said;
        sample.m_interval = std::max(said.m_sendElapsed, Simulator::Now() - said.m_priorTime);
        const bool isValid = said.m_priorTime > Time(0) && sample.m_interval >= state->m_minRtt;
        sample.m_deliveryRate = DataRate(isValid ? said.m_delivered * 8 / sample.m_interval.GetSeconds() : 0);
        if (state->m_lastRtt != m_rtt)
        {
            m_rtt = state->m_lastRtt.Get() + NanoSeconds(Simulator::Now().GetMilliSeconds() / 10);
            state->m_lastRtt = m_rtt;
        }
        if (m_rate > DataRate(0)) { state->m_pacingRate = m_rate; }
        TcpBbr::CongControl(state, connection, sample);
        m_rate = state->m_pacingRate;
        state->m_pacingRate = DataRate(0.99 * m_rate.GetBitRate());
    }
    uint32_t GetSsThresh(Ptr<const TcpSocketState> state, uint32_t inFlight) override
    {
        TcpBbr::GetSsThresh(state, inFlight); // remembers the window
        return 1 << 30;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Bbr>(this); }

  private:
    DataRate m_rate = DataRate(0); // without the 1%
    Time m_rtt;
};
NS_OBJECT_ENSURE_REGISTERED(Bbr);

// LEDBAT without two deviations of `TcpLedbat`, which make its window constant and its queue short:
//
// 1. Its bound of the window, the data in flight, lacks ALLOWED_INCREASE, a packet (RFC 6817 section 2.4.2). Data in
//    flight are whole packets and an acknowledgement adds less, so the window never grows. ns-3.47 has it.
// 2. It rounds the increase of each acknowledgement down to whole bytes. With 230 packets and no queue this is 6 of
//    them, so the window stops at 84% of the target. Here a window of data is one acknowledgement.
class Ledbat : public TcpLedbat
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::Ledbat").SetParent<TcpLedbat>().AddConstructor<Ledbat>();
        return id;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Ledbat>(this); }

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> state, uint32_t acked) override
    {
        m_acked += acked;
        if (m_acked * state->m_segmentSize < state->m_cWnd) { return; }
        TcpLedbat::CongestionAvoidance(state, m_acked);
        m_acked = 0;
    }

  private:
    uint32_t m_acked = 0;
};
NS_OBJECT_ENSURE_REGISTERED(Ledbat);

int
main(int argc, char** argv)
{
    std::string tcp = "TcpVegas";
    uint32_t flows = 1, beside = 0, buffer = 500, rate = 20;
    double duration = 200, warmup = 100, spread = 0.01;
    bool timestamps = false, smooth = false;
    CommandLine line;
    line.AddValue("tcp", "an ns-3 type", tcp);
    line.AddValue("flows", "how many", flows);
    line.AddValue("beside", "how many flows of NewReno", beside);
    line.AddValue("rate", "of the bottleneck, in Mb/s", rate);
    line.AddValue("buffer", "in packets", buffer);
    line.AddValue("duration", "in seconds", duration);
    line.AddValue("warmup", "in seconds", warmup);
    line.AddValue("spread", "of the flows' starts, in seconds", spread);
    line.AddValue("timestamps", "TCP's, which count milliseconds", timestamps);
    line.AddValue("smooth", "controllers get the smoothed round-trip time, as in ns-3", smooth);
    const uint32_t segment = 1500 - 42;
    SetTcp(segment, 2);
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(10000000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(10000000));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::TcpClassicRecovery"));
    line.Parse(argc, argv); // --RngRun=N is the seed; --ns3::TYPE::ATTRIBUTE=VALUE sets a default
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(timestamps));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(timestamps ? segment - 12 : segment));
    // ns-3.37 passes the smoothed round-trip time to controllers as the last sample (`m_lastRtt` in EstimateRtt of
    // tcp-socket-base.cc). With this weight the two are the same.
    if (!smooth) { Config::SetDefault("ns3::RttMeanDeviation::Alpha", DoubleValue(1)); }

    Dumbbell net(flows + beside, DataRate(rate * 1e6), MilliSeconds(19), buffer,
                 [](uint32_t) { return MicroSeconds(500); }, MicroSeconds(500));
    Ptr<UniformRandomVariable> uniform = CreateObject<UniformRandomVariable>();
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < flows + beside; i++)
    {
        const std::string type = i < flows ? tcp : "FlightSizeReno";
        net.left.Get(i)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType",
                                                                  TypeIdValue(TypeId::LookupByName("ns3::" + type)));
        sinks.Add(PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000))
                      .Install(net.right.Get(i)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(net.rightAddress[i], 5000));
        bulk.SetAttribute("SendSize", UintegerValue(timestamps ? segment - 12 : segment));
        bulk.Install(net.left.Get(i)).Start(Seconds(uniform->GetValue(0, spread)));
    }
    std::vector<double> before, after;
    auto received = [&sinks](std::vector<double>* bytes) {
        for (uint32_t i = 0; i < sinks.GetN(); i++)
        {
            bytes->push_back(DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx());
        }
    };
    Meter meter(net.bottleneck.Get(0), segment);
    Simulator::Schedule(Seconds(warmup), &Meter::Begin, &meter);
    Simulator::Schedule(Seconds(warmup), [&]() { received(&before); });
    Simulator::Schedule(Seconds(duration), &Meter::End, &meter);
    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    received(&after);
    double sum = 0, squares = 0, others = 0;
    for (uint32_t i = 0; i < flows + beside; i++)
    {
        const double bytes = after[i] - before[i];
        if (i < flows) { sum += bytes, squares += bytes * bytes; }
        else { others += bytes; }
    }
    printf("{\"tcp\":\"%s\",\"flows\":%u,\"beside\":%u,\"buffer\":%u,\"utilization\":%.4f,\"queue_mean_packets\":%.2f,"
           "\"drop_rate\":%.6f,\"goodput_jain\":%.4f,\"share\":%.4f}\n",
           tcp.c_str(), flows, beside, buffer, meter.Utilization(rate * 1e6, duration - warmup), meter.QueueMean(),
           meter.DropRate(), sum * sum / (flows * squares), sum / (sum + others));
    fflush(stdout);
    _exit(0); // skips the destruction of ns-3 objects
}
