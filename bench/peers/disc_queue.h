// A queue disc of ns-3 as the queue of a point-to-point device, and a meter on it.
//
// ns-3 puts a queue disc above the device, whose own queue takes one packet from it before that packet's transmission
// can start. So the disc would see one packet and its transmission time less than waits. Here the disc stands directly
// before the transmitter, as in RFC 8033 and RFC 8289, and in our simulator.
#pragma once
#include "common.h"
#include "ns3/traffic-control-module.h"
#include <algorithm>

class DiscQueue : public Queue<Packet>
{
  public:
    const Ptr<QueueDisc> disc;

    explicit DiscQueue(Ptr<QueueDisc> d)
        : disc(d)
    {
        disc->Initialize();
    }
    bool Enqueue(Ptr<Packet> packet) override
    {
        PppHeader ppp;
        Ipv4Header ip;
        packet->RemoveHeader(ppp);
        packet->RemoveHeader(ip);
        return disc->Enqueue(Create<Ipv4QueueDiscItem>(packet, Address(), ppp.GetProtocol(), ip));
    }
    Ptr<Packet> Dequeue() override
    {
        Ptr<QueueDiscItem> item = disc->Dequeue();
        if (!item) { return nullptr; }
        item->AddHeader(); // IP's, with the ECN code that the disc may have changed
        PppHeader ppp;
        ppp.SetProtocol(0x0021); // IPv4
        item->GetPacket()->AddHeader(ppp);
        return item->GetPacket();
    }
    Ptr<Packet> Remove() override { return Dequeue(); }
    Ptr<const Packet> Peek() const override { return nullptr; }
};

// The device, its queue disc and the receivers, measured between Begin and End. The queue is sampled every 0.5 ms,
// without the first `uncounted` packets.
class DiscMeter
{
  public:
    DiscMeter(Ptr<PointToPointNetDevice> device, Ptr<QueueDisc> disc, ApplicationContainer sinks, uint32_t uncounted)
        : m_disc(disc), m_sinks(sinks), m_uncounted(uncounted)
    {
        device->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&DiscMeter::Sent, this));
    }
    void Begin()
    {
        m_on = true;
        m_before = m_disc->GetStats();
        m_received = Received();
        Sample();
    }
    void End()
    {
        m_on = false;
        m_after = m_disc->GetStats();
        std::vector<double> before = m_received;
        m_received = Received();
        for (size_t i = 0; i < before.size(); i++) { m_received[i] -= before[i]; }
        std::sort(m_samples.begin(), m_samples.end());
    }
    // The fields of a row, without braces.
    std::string Row(double bps, double seconds) const
    {
        const double offered = m_after.nTotalReceivedPackets - m_before.nTotalReceivedPackets;
        const double dropped = m_after.nTotalDroppedPackets - m_before.nTotalDroppedPackets;
        const double marked = m_after.nTotalMarkedPackets - m_before.nTotalMarkedPackets;
        double waiting = 0, sum = 0, squares = 0;
        for (uint32_t sample : m_samples) { waiting += sample; }
        for (double bytes : m_received) { sum += bytes, squares += bytes * bytes; }
        char row[300];
        snprintf(row, sizeof row,
                 "\"utilization\":%.4f,\"queue_mean_packets\":%.2f,\"queue_p99_packets\":%u,\"drop_rate\":%.6f,"
                 "\"mark_rate\":%.6f,\"goodput_jain\":%.4f",
                 m_bytes * 8 / (bps * seconds), waiting / m_samples.size(), m_samples[m_samples.size() * 99 / 100],
                 dropped / offered, marked / offered, sum * sum / (m_received.size() * squares));
        return row;
    }

  private:
    Ptr<QueueDisc> m_disc;
    ApplicationContainer m_sinks;
    uint32_t m_uncounted;
    bool m_on = false;
    double m_bytes = 0;
    std::vector<uint32_t> m_samples;
    std::vector<double> m_received;
    QueueDisc::Stats m_before, m_after;

    std::vector<double> Received() const
    {
        std::vector<double> bytes;
        for (uint32_t i = 0; i < m_sinks.GetN(); i++)
        {
            bytes.push_back(DynamicCast<PacketSink>(m_sinks.Get(i))->GetTotalRx());
        }
        return bytes;
    }
    void Sent(Ptr<const Packet> packet)
    {
        if (m_on) { m_bytes += packet->GetSize(); }
    }
    void Sample()
    {
        if (!m_on) { return; }
        m_samples.push_back(std::max(m_disc->GetNPackets(), m_uncounted) - m_uncounted);
        Simulator::Schedule(MicroSeconds(500), &DiscMeter::Sample, this);
    }
};
