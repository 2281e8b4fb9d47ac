// studies/rivals/queue_disciplines.toml, queue_overload.toml, dctcp.toml and shaper.toml in ns-3 (3.37 and later): its
// queue discs over one bottleneck, with long-lived TCP, or with datagrams at constant rates.
//
//   source.0 .. N-1 ── left ══ 20 Mb/s, 28 ms, 1000 packets ══ right ── sink.0 .. N-1     60 ms of round trip
//                              100 Mb/s, 1 ms for DCTCP                                   4 ms
//                              100 Mb/s, 28 ms, shaped to 20 Mb/s, 20 packets             60 ms
//
// A packet is 1500 bytes on the wire: 1446 of TCP's payload and 54 of headers (PPP 2, IP 20, TCP 20, timestamps 12), or
// 1470 of UDP's and 30 (UDP 8). Prints one JSON line.
#include "disc_queue.h"
#include "newreno.h"

static const uint32_t IP_PACKET = 1498; // without PPP

static Ptr<QueueDisc>
Red(double rate, bool ecn)
{
    ObjectFactory factory("ns3::RedQueueDisc");
    factory.Set("UseEcn", BooleanValue(ecn));
    factory.Set("UseHardDrop", BooleanValue(false));
    factory.Set("LinkBandwidth", DataRateValue(DataRate(rate)));
    factory.Set("MeanPktSize", UintegerValue(IP_PACKET));
    factory.Set("MaxSize", StringValue("1500000B")); // counts bytes, as ours
    factory.Set("MinTh", DoubleValue(20 * IP_PACKET));
    factory.Set("MaxTh", DoubleValue(60 * IP_PACKET));
    factory.Set("LInterm", DoubleValue(10)); // 1 / max_p
    factory.Set("QW", DoubleValue(0.002));
    return factory.Create<QueueDisc>();
}

// DCTCP's switch: RED without an average that marks all packets which find more than 20 packets waiting.
static Ptr<QueueDisc>
Step()
{
    ObjectFactory factory("ns3::RedQueueDisc");
    factory.Set("UseEcn", BooleanValue(true));
    factory.Set("UseHardDrop", BooleanValue(false));
    factory.Set("Gentle", BooleanValue(false));
    factory.Set("MaxSize", StringValue("1000p"));
    factory.Set("MinTh", DoubleValue(21));
    factory.Set("MaxTh", DoubleValue(21));
    factory.Set("QW", DoubleValue(1));
    return factory.Create<QueueDisc>();
}

// A token bucket with bursts of 60 packets. It must wake the device when it has tokens, so it stands above the device,
// as ns-3's queue discs do; the device has a queue of one packet. In our simulator the packet that waits for tokens is
// in the transmitter, not in the queue. So this queue has one packet more, which the meter does not count. During
// bursts one more packet is in the device's queue, and not counted either.
static Ptr<QueueDisc>
Shaper(Ptr<PointToPointNetDevice> device, double rate)
{
    auto queue = CreateObjectWithAttributes<DropTailQueue<Packet>>("MaxSize", StringValue("1p"));
    device->SetQueue(queue);
    Ptr<NetDeviceQueueInterface> control = CreateObject<NetDeviceQueueInterface>();
    control->GetTxQueue(0)->ConnectQueueTraces(queue);
    device->AggregateObject(control);
    TrafficControlHelper helper;
    helper.SetRootQueueDisc("ns3::TbfQueueDisc", "MaxSize", StringValue("21p"), "Burst", UintegerValue(60 * IP_PACKET),
                            "Rate", DataRateValue(DataRate(rate * IP_PACKET / 1500)));
    return helper.Install(device).Get(0);
}

// PIE with RFC 8034's parameters and distances between drops. It is always active: ns-3's becomes inactive as soon as the
// queue is short, RFC 8034's after a second. The probability is the same for packets of any size.
static void
SetDocsis(ObjectFactory& factory)
{
    factory.Set("A", DoubleValue(0.25));
    factory.Set("B", DoubleValue(2.5));
    factory.Set("Tupdate", TimeValue(MilliSeconds(16)));
    factory.Set("QueueDelayReference", TimeValue(MilliSeconds(10)));
    factory.Set("MaxBurstAllowance", TimeValue(MilliSeconds(142)));
    factory.Set("UseDerandomization", BooleanValue(true));
    factory.Set("UseCapDropAdjustment", BooleanValue(true));
}

static bool
HasCeThreshold(const std::string& name)
{
    return name == "codel-ce" || name == "fq-codel-ce";
}

static Ptr<QueueDisc>
Discipline(const std::string& name, double rate, bool ecn)
{
    if (name == "red") { return Red(rate, ecn); }
    if (name == "step-marking") { return Step(); }
    const bool isFair = name == "fq-codel" || name == "fq-codel-ce";
    ObjectFactory factory(isFair ? "ns3::FqCoDelQueueDisc"
                                 : name == "codel" || name == "codel-ce" ? "ns3::CoDelQueueDisc" : "ns3::PieQueueDisc");
    factory.Set("UseEcn", BooleanValue(ecn));
    factory.Set("MaxSize", StringValue("1000p"));
    if (name == "pie") { factory.Set("MarkEcnThreshold", DoubleValue(1)); }
    if (name == "docsis-pie") { SetDocsis(factory); }
    if (HasCeThreshold(name)) { factory.Set("CeThreshold", TimeValue(MicroSeconds(2400))); }
    if (!isFair) { return factory.Create<QueueDisc>(); }
    factory.Set("Perturbation", UintegerValue(RngSeedManager::GetRun()));
    Ptr<FqCoDelQueueDisc> disc = factory.Create<FqCoDelQueueDisc>();
    disc->SetQuantum(IP_PACKET);
    return disc;
}

int
main(int argc, char** argv)
{
    std::string router = "codel", tcp = "FlightSizeReno";
    uint32_t flows = 4;
    bool ecn = false;
    double load = 0;
    CommandLine line;
    line.AddValue("router", "red, codel, fq-codel, pie, docsis-pie, step-marking, codel-ce, fq-codel-ce, shaper", router);
    line.AddValue("tcp", "an ns-3 type", tcp);
    line.AddValue("flows", "how many", flows);
    line.AddValue("ecn", "mark instead of dropping", ecn);
    line.AddValue("load", "of datagrams, as a share of the rate; 0: TCP", load);
    line.Parse(argc, argv); // --RngRun=N is the seed
    const bool isDctcp = router == "step-marking" || HasCeThreshold(router), isShaped = router == "shaper";
    const double rate = isDctcp ? 100e6 : 20e6, duration = isDctcp ? 15 : 80, warmup = isDctcp ? 5 : 20;
    SetTcp(1446, 10);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + tcp));
    // With ns-3's default, `TcpPrrRecovery`, the window is above `ssthresh` when the round trip after a mark ends (9.3
    // instead of 6.5 packets where receivers delay acknowledgements; RFC 6937 has it at `ssthresh`): 20 flows get 22%
    // more marks from RED than drops, and 56% more from FQ-CoDel. With this one they get as many.
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::TcpClassicRecovery"));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn ? "On" : "Off"));

    const Time access = isDctcp ? MicroSeconds(500) : MilliSeconds(1), delay = MilliSeconds(isDctcp ? 1 : 28);
    Dumbbell net(flows, DataRate(isShaped ? 100e6 : rate), delay, 1000, [&](uint32_t) { return access; }, access);
    auto device = DynamicCast<PointToPointNetDevice>(net.bottleneck.Get(0));
    Ptr<QueueDisc> disc = isShaped ? Shaper(device, rate) : Discipline(router, rate, ecn);
    if (!isShaped) { device->SetQueue(Create<DiscQueue>(disc)); }
    Ptr<UniformRandomVariable> uniform = CreateObject<UniformRandomVariable>();
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < flows; i++)
    {
        const std::string protocol = load > 0 ? "ns3::UdpSocketFactory" : "ns3::TcpSocketFactory";
        sinks.Add(PacketSinkHelper(protocol, InetSocketAddress(Ipv4Address::GetAny(), 5000)).Install(net.right.Get(i)));
        const InetSocketAddress to(net.rightAddress[i], 5000);
        const Time start = Seconds(uniform->GetValue(0, 1));
        if (load > 0)
        {
            OnOffHelper datagrams(protocol, to);
            datagrams.SetConstantRate(DataRate(load * rate / flows * 1470 / 1500), 1470);
            datagrams.Install(net.left.Get(i)).Start(start);
        }
        else
        {
            BulkSendHelper bulk(protocol, to);
            bulk.SetAttribute("SendSize", UintegerValue(1446));
            bulk.Install(net.left.Get(i)).Start(start);
        }
    }
    DiscMeter meter(device, disc, sinks, isShaped ? 1 : 0);
    Simulator::Schedule(Seconds(warmup), &DiscMeter::Begin, &meter);
    Simulator::Schedule(Seconds(duration), &DiscMeter::End, &meter);
    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    printf("{\"router\":\"%s\",\"ecn\":%s,\"load\":%g,\"flows\":%u,%s}\n", router.c_str(), ecn ? "true" : "false", load,
           flows, meter.Row(rate, duration - warmup).c_str());
    fflush(stdout);
    _exit(0); // skips the destruction of ns-3 objects
}
