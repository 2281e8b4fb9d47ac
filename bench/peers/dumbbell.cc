// studies/bench/dumbbell.toml in ns-3 (3.37 and later): long-lived NewReno flows both ways over one bottleneck.
//
//   source.i ──┐ 5 ms                            5 ms ┌── sink.i              as many in reverse
//              left ══ 150 Mb/s, 30 ms ══ right ──────┘    one round trip of buffer, access 1 Gb/s
//
// Prints one JSON line.
#include "common.h"

int
main(int argc, char** argv)
{
    uint32_t flows = 30;
    std::string rate = "150Mbps";
    double duration = 60, warmup = 12;
    const uint32_t segment = 1000;
    CommandLine line;
    line.AddValue("flows", "flows each way", flows);
    line.AddValue("rate", "of the bottleneck", rate);
    line.AddValue("duration", "simulated seconds", duration);
    line.AddValue("warmup", "seconds that are not measured", warmup);
    line.Parse(argc, argv); // --RngRun=N is the seed
    SetTcp(segment, 10);

    const double bps = DataRate(rate).GetBitRate();
    const uint64_t buffer = bps * 0.080 / 8 / segment;
    Dumbbell net(2 * flows, DataRate(rate), MilliSeconds(30), buffer, [](uint32_t) { return MilliSeconds(5); },
                 MilliSeconds(5));
    Ptr<UniformRandomVariable> uniform = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 0; i < 2 * flows; i++)
    {
        const bool forward = i < flows;
        Ptr<Node> source = (forward ? net.left : net.right).Get(i), sink = (forward ? net.right : net.left).Get(i);
        Ipv4Address to = (forward ? net.rightAddress : net.leftAddress)[i];
        PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000)).Install(sink);
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(to, 5000));
        bulk.SetAttribute("SendSize", UintegerValue(segment));
        bulk.Install(source).Start(Seconds(uniform->GetValue(0, 1)));
    }
    Meter forward(net.bottleneck.Get(0), segment), reverse(net.bottleneck.Get(1), segment);
    for (Meter* meter : {&forward, &reverse})
    {
        Simulator::Schedule(Seconds(warmup), &Meter::Begin, meter);
        Simulator::Schedule(Seconds(duration), &Meter::End, meter);
    }
    Simulator::Stop(Seconds(duration));
    const double wall = RunTimed();
    printf("{\"data_packets\":%lu,\"wall_s\":%.3f,\"memory_mb\":%.1f,\"utilization\":%.4f,\"queue_mean_packets\":%.1f,"
           "\"drop_rate\":%.6f}\n",
           forward.data + reverse.data, wall, PeakMegabytes(), forward.Utilization(bps, duration - warmup),
           forward.QueueMean(), forward.DropRate());
    fflush(stdout);
    _exit(0); // skips the destruction of ns-3 objects
}
