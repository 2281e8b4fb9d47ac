-- Rampmeter's packets in Wireshark and tshark: the header in clear, as captures of scenarios have it.
--
--   tshark -X lua_script:contrib/rampmeter.lua -r bottleneck.pcapng
--
-- The layout is that of crates/wire/src/codec.rs. Packets on the open wire are sealed: only their UDP header can be read.

local proto = Proto("rampmeter", "Rampmeter")

local KINDS = { [1] = "Syn", [2] = "SynAck", [3] = "Data", [4] = "Reset" }
local CODES = { [0] = "Not-ECT", [1] = "ECT(1)", [2] = "ECT(0)", [3] = "CE" }
local FEEDBACK = { [1] = "fair share", [2] = "XCP" }

local f = {
  version = ProtoField.uint8("rampmeter.version", "Version", base.DEC, nil, 0xf0),
  kind = ProtoField.uint8("rampmeter.kind", "Kind", base.DEC, KINDS, 0x0f),
  fin = ProtoField.bool("rampmeter.fin", "End of the stream", 8, nil, 0x01),
  ping = ProtoField.bool("rampmeter.ping", "Asks for an answer", 8, nil, 0x02),
  has_feedback = ProtoField.bool("rampmeter.has_feedback", "Feedback of routers", 8, nil, 0x04),
  has_echo = ProtoField.bool("rampmeter.has_echo", "Echoed feedback", 8, nil, 0x08),
  has_proof = ProtoField.bool("rampmeter.has_proof", "Proof of arrivals", 8, nil, 0x10),
  probe = ProtoField.bool("rampmeter.probe", "Probe of the packet size", 8, nil, 0x20),
  receipts = ProtoField.uint8("rampmeter.receipts", "Number of receipts"),
  sacks = ProtoField.uint8("rampmeter.sacks", "Number of selective acknowledgements"),
  connection = ProtoField.uint32("rampmeter.connection", "Connection", base.HEX),
  number = ProtoField.uint32("rampmeter.number", "Packet number"),
  sequence = ProtoField.uint32("rampmeter.sequence", "Sequence number"),
  acknowledgement = ProtoField.uint32("rampmeter.acknowledgement", "Acknowledgement"),
  window = ProtoField.uint32("rampmeter.window", "Receive window"),
  payload = ProtoField.uint16("rampmeter.payload", "Payload bytes"),
  receipt = ProtoField.uint32("rampmeter.receipt.number", "Receipt of packet"),
  receipt_time = ProtoField.double("rampmeter.receipt.time", "Arrival, receiver's clock (s)"),
  receipt_ecn = ProtoField.uint8("rampmeter.receipt.ecn", "ECN code at arrival", base.DEC, CODES),
  sack_start = ProtoField.uint32("rampmeter.sack.start", "Received from"),
  sack_end = ProtoField.uint32("rampmeter.sack.end", "Received up to"),
  feedback = ProtoField.uint8("rampmeter.feedback", "Feedback", base.DEC, FEEDBACK),
  proof = ProtoField.uint32("rampmeter.proof.number", "Proof up to packet"),
}
proto.fields = f

local HEADER_BYTES, RECEIPT_BYTES, SACK_BYTES, FEEDBACK_BYTES, PROOF_BYTES = 26, 12, 8, 21, 13

-- Whether these bytes are one of our headers: its version, kind, flags and counts are defined.
local function is_ours(buffer)
  if buffer:len() < HEADER_BYTES then return false end
  local first, flags = buffer(0, 1):uint(), buffer(1, 1):uint()
  local kind = first % 16
  return math.floor(first / 16) == 1 and KINDS[kind] ~= nil and flags < 64
    and buffer(2, 1):uint() <= 8 and buffer(3, 1):uint() <= 3
end

local function dissect(buffer, info, tree)
  if not is_ours(buffer) then return false end
  info.cols.protocol = "Rampmeter"
  local branch = tree:add(proto, buffer())
  branch:add(f.version, buffer(0, 1))
  branch:add(f.kind, buffer(0, 1))
  for _, flag in ipairs({ f.fin, f.ping, f.has_feedback, f.has_echo, f.has_proof, f.probe }) do
    branch:add(flag, buffer(1, 1))
  end
  branch:add(f.receipts, buffer(2, 1))
  branch:add(f.sacks, buffer(3, 1))
  local at = 4
  for _, field in ipairs({ f.connection, f.number, f.sequence, f.acknowledgement, f.window }) do
    branch:add(field, buffer(at, 4))
    at = at + 4
  end
  branch:add(f.payload, buffer(at, 2))
  local kind, number, payload = KINDS[buffer(0, 1):uint() % 16], buffer(8, 4):uint(), buffer(at, 2):uint()
  at = HEADER_BYTES
  -- A capture may end within the header.
  local function has(bytes) return at + bytes <= buffer:len() end
  for _ = 1, buffer(2, 1):uint() do
    if not has(RECEIPT_BYTES) then break end
    local time = buffer(at + 4, 8):uint64()
    branch:add(f.receipt, buffer(at, 4))
    branch:add(f.receipt_time, buffer(at + 4, 8), time:rshift(2):tonumber() / 1e9)
    branch:add(f.receipt_ecn, buffer(at + 11, 1), time:band(3):tonumber())
    at = at + RECEIPT_BYTES
  end
  for _ = 1, buffer(3, 1):uint() do
    if not has(SACK_BYTES) then break end
    branch:add(f.sack_start, buffer(at, 4))
    branch:add(f.sack_end, buffer(at + 4, 4))
    at = at + SACK_BYTES
  end
  local flags = buffer(1, 1):uint()
  for _, bit in ipairs({ 4, 8 }) do
    if math.floor(flags / bit) % 2 == 1 and has(FEEDBACK_BYTES) then
      branch:add(f.feedback, buffer(at, 1))
      at = at + FEEDBACK_BYTES
    end
  end
  if math.floor(flags / 16) % 2 == 1 and has(PROOF_BYTES) then
    branch:add(f.proof, buffer(at, 4))
  end
  info.cols.info = string.format("%s number=%d sequence=%d payload=%d acknowledges=%d", kind, number,
    buffer(12, 4):uint(), payload, buffer(16, 4):uint())
  return true
end

proto.dissector = dissect
proto:register_heuristic("udp", dissect)
