// Common parts of the ns-3 programs: a dumbbell of point-to-point links with drop-tail queues in their devices, and a
// meter on the bottleneck. Queue discs and flow control are off, so that every packet waits, and is lost, in the device.
#pragma once
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

using namespace ns3;

// TCP with the settings of our `newreno`: NewReno with SACK, timestamps, delayed acknowledgements (2 packets, 200 ms).
inline void
SetTcp(uint32_t segment, uint32_t initialWindow)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(3)));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(initialWindow));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1000000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1000000));
    // Avoids a search of all interfaces for every packet. The attribute has two names in different versions.
    if (!Config::SetDefaultFailSafe("ns3::Ipv4::StrongEndSystemModel", BooleanValue(true)))
    {
        Config::SetDefaultFailSafe("ns3::Ipv4::WeakEsModel", BooleanValue(false));
    }
}

// One direction of the bottleneck, measured between Begin and End.
struct Meter
{
    Ptr<PointToPointNetDevice> device;
    uint32_t dataSize;     // packets of at least this size carry data
    uint64_t data = 0;     // sent since the start
    uint64_t bytes = 0;    // sent between Begin and End
    uint64_t offered = 0, dropped = 0;
    double queueSum = 0;
    uint64_t samples = 0;
    bool on = false;

    Meter(Ptr<NetDevice> d, uint32_t size)
        : device(DynamicCast<PointToPointNetDevice>(d)), dataSize(size)
    {
        device->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Meter::Sent, this));
    }

    void Sent(Ptr<const Packet> p)
    {
        data += p->GetSize() >= dataSize;
        if (on) { bytes += p->GetSize(); }
    }
    uint64_t Offered() { return device->GetQueue()->GetTotalReceivedPackets() + Dropped(); }
    uint64_t Dropped() { return device->GetQueue()->GetTotalDroppedPacketsBeforeEnqueue(); }
    void Begin()
    {
        on = true;
        offered = Offered();
        dropped = Dropped();
        Sample();
    }
    void Sample()
    {
        if (!on) { return; }
        queueSum += device->GetQueue()->GetNPackets();
        samples++;
        Simulator::Schedule(MicroSeconds(500), &Meter::Sample, this);
    }
    void End()
    {
        on = false;
        offered = Offered() - offered;
        dropped = Dropped() - dropped;
    }
    double Utilization(double rate, double seconds) const { return bytes * 8.0 / (rate * seconds); }
    double DropRate() const { return offered ? double(dropped) / offered : 0; }
    double QueueMean() const { return samples ? queueSum / samples : 0; }
};

// Pairs of hosts, left.i to right.i, around one bottleneck.
struct Dumbbell
{
    NodeContainer left, right, routers;
    NetDeviceContainer bottleneck;
    std::vector<Ipv4Address> leftAddress, rightAddress;

    // `leftDelay(i)` is the one-way delay of left.i's access link.
    template <typename Delay>
    Dumbbell(uint32_t pairs, DataRate rate, Time delay, uint64_t buffer, Delay leftDelay, Time rightDelay)
    {
        left.Create(pairs);
        right.Create(pairs);
        routers.Create(2);
        Ipv4NixVectorHelper nix;
        InternetStackHelper stack;
        stack.SetIpv6StackInstall(false);
        stack.SetRoutingHelper(nix);
        stack.InstallAll();
        bottleneck = Connect(routers.Get(0), routers.Get(1), rate, delay, buffer);
        Address("10.0.0.0", bottleneck);
        for (uint32_t i = 0; i < pairs; i++)
        {
            leftAddress.push_back(Access("10.1", i, left.Get(i), routers.Get(0), leftDelay(i)));
            rightAddress.push_back(Access("10.2", i, right.Get(i), routers.Get(1), rightDelay));
        }
    }

  private:
    static NetDeviceContainer Connect(Ptr<Node> a, Ptr<Node> b, DataRate rate, Time delay, uint64_t packets)
    {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", DataRateValue(rate));
        link.SetChannelAttribute("Delay", TimeValue(delay));
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(std::to_string(packets) + "p"));
        link.DisableFlowControl();
        return link.Install(a, b);
    }
    static Ipv4Address Address(const char* net, NetDeviceContainer devices)
    {
        Ipv4AddressHelper ip;
        ip.SetBase(net, "255.255.255.252");
        return ip.Assign(devices).GetAddress(0);
    }
    static Ipv4Address Access(const char* net, uint32_t i, Ptr<Node> host, Ptr<Node> router, Time delay)
    {
        char address[32];
        snprintf(address, sizeof address, "%s.%u.%u", net, i * 4 / 256, i * 4 % 256);
        return Address(address, Connect(host, router, DataRate("1Gbps"), delay, 100000));
    }
};

// Runs the simulation and returns its wall-clock time in seconds.
inline double
RunTimed()
{
    auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double
PeakMegabytes()
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024.0;
}
