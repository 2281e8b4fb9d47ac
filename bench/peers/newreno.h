// NewReno that halves FlightSize (RFC 5681, eq. (4)), which for a bulk transfer is the window. ns-3 passes the pipe of
// RFC 6675 to `TcpNewReno`, which is less by the packets that were acknowledged beyond the hole (EnterRecovery in
// tcp-socket-base.cc): a window of 8 packets becomes one of 2. With `TcpNewReno` 20 flows lose a fifth fewer packets.
#pragma once
#include "ns3/internet-module.h"
#include <algorithm>

using namespace ns3;

class FlightSizeReno : public TcpNewReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::FlightSizeReno").SetParent<TcpNewReno>().AddConstructor<FlightSizeReno>();
        return id;
    }
    uint32_t GetSsThresh(Ptr<const TcpSocketState> state, uint32_t) override
    {
        return std::max(2 * state->m_segmentSize, state->m_cWnd.Get() / 2);
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<FlightSizeReno>(this); }
};
NS_OBJECT_ENSURE_REGISTERED(FlightSizeReno);
