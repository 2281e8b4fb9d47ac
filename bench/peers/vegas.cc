// studies/bench/vegas.toml in ns-3 (3.37 and later): long-lived Vegas flows over one bottleneck.
//
//   source.0..3 ── left ══ 20 Mb/s, 19 ms, 500 packets ══ right ── sink.0..3      40 ms of round trip
//
// A packet is 1500 bytes on the wire: 1446 of payload and 54 of headers (PPP 2, IP 20, TCP 20, timestamps 12). The flows
// start together. Alpha and beta are equal, so that the number of packets in the queue does not depend on how the flows
// started. Prints one JSON line.
#include "common.h"

int
main(int argc, char** argv)
{
    uint32_t flows = 1;
    const double duration = 60, warmup = 20, bps = 20e6;
    const uint32_t segment = 1446;
    CommandLine line;
    line.AddValue("flows", "how many", flows);
    line.Parse(argc, argv);
    SetTcp(segment, 2);
    Config::SetDefault("ns3::TcpVegas::Alpha", UintegerValue(10));
    Config::SetDefault("ns3::TcpVegas::Beta", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpVegas"));

    Dumbbell net(flows, DataRate(bps), MilliSeconds(19), 500, [](uint32_t) { return MicroSeconds(500); },
                 MicroSeconds(500));
    for (uint32_t i = 0; i < flows; i++)
    {
        PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000)).Install(net.right.Get(i));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(net.rightAddress[i], 5000));
        bulk.SetAttribute("SendSize", UintegerValue(segment));
        bulk.Install(net.left.Get(i)).Start(Seconds(0));
    }
    Meter meter(net.bottleneck.Get(0), segment);
    Simulator::Schedule(Seconds(warmup), &Meter::Begin, &meter);
    Simulator::Schedule(Seconds(duration), &Meter::End, &meter);
    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    printf("{\"flows\":%u,\"utilization\":%.4f,\"queue_mean_packets\":%.2f,\"drop_rate\":%.6f}\n",
           flows, meter.Utilization(bps, duration - warmup), meter.QueueMean(), meter.DropRate());
    fflush(stdout);
    _exit(0); // skips the destruction of ns-3 objects
}
