# studies/bench/high_speed.toml in ns-2 (2.35) with the congestion control of Linux 2.6.22: long-lived flows over one
# bottleneck with a buffer of one bandwidth-delay product. Prints one JSON line.
#
#   ns high_speed.tcl ALGORITHM SEED        ALGORITHM: highspeed, scalable, htcp, bic, cubic, reno
#
# Packets have 1500 bytes with their headers, and each is acknowledged, as in Rampmeter.
lassign $argv algorithm seed
set rate 50e6
set duration 60.0
set warmup 10.0
set packet 1500
set flows 4
set buffer [expr int($rate * 0.080 / 8 / $packet)]

remove-all-packet-headers
add-packet-header IP TCP Flags
ns-random $seed
set ns [new Simulator]
$ns use-scheduler Heap

proc connect {a b rate delay packets} {
  global ns
  $ns duplex-link $a $b $rate $delay DropTail
  $ns queue-limit $a $b $packets
  $ns queue-limit $b $a $packets
}

set left [$ns node]
set right [$ns node]
connect $left $right $rate 30ms $buffer
set rng [new RNG]
$rng seed $seed
for {set i 0} {$i < $flows} {incr i} {
  set a [$ns node]
  set b [$ns node]
  connect $a $left 1Gb 5ms 100000
  connect $b $right 1Gb 5ms 100000
  set tcp [new Agent/TCP/Linux]
  set sink [new Agent/TCPSink/Sack1]
  $tcp set packetSize_ [expr $packet - 40]
  $tcp set window_ 100000
  $tcp set timestamps_ true
  $tcp set tcpTick_ 0.001
  $tcp set minrto_ 0.2
  $sink set ts_echo_rfc1323_ true
  $ns attach-agent $a $tcp
  $ns attach-agent $b $sink
  $ns connect $tcp $sink
  $ns at 0 "$tcp select_ca $algorithm"
  set ftp [new Application/FTP]
  $ftp attach-agent $tcp
  $ns at [$rng uniform 0 1] "$ftp start"
}

set queue [$ns monitor-queue $left $right ""]
set integral [$queue get-pkts-integrator]
proc begin {} {
  global ns queue integral before
  $integral newpoint [$ns now] [$queue set pkts_]
  foreach counter {bdepartures_ pdrops_ parrivals_} { set before($counter) [$queue set $counter] }
  set before(sum) [$integral set sum_]
}
proc finish {} {
  global ns queue integral before rate duration warmup algorithm seed
  $integral newpoint [$ns now] [$queue set pkts_]
  foreach counter {bdepartures_ pdrops_ parrivals_} {
    set during($counter) [expr double([$queue set $counter]) - $before($counter)]
  }
  set measured [expr $duration - $warmup]
  puts [format {{"algorithm":"%s","seed":%d,"utilization":%.4f,"queue_mean_packets":%.1f,"drop_rate":%.7f}} \
    $algorithm $seed [expr $during(bdepartures_) * 8 / ($rate * $measured)] \
    [expr ([$integral set sum_] - $before(sum)) / $measured] [expr $during(pdrops_) / $during(parrivals_)]]
  exit 0
}
$ns at $warmup begin
$ns at $duration finish
$ns run
