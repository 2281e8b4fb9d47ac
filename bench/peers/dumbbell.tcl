# studies/bench/dumbbell.toml in ns-2 (2.35): long-lived SACK flows both ways over one bottleneck. Prints one JSON line.
#
#   ns dumbbell.tcl FLOWS-EACH-WAY RATE-IN-MB/S DURATION-IN-S SEED
#
# ns-2 counts packets of 1000 bytes, headers included, where ns-3 and Rampmeter send 1000 bytes of data in 1054.
lassign $argv flows rate duration seed
set segment 1000
set warmup 12.0
set buffer [expr int($rate * 1e6 * 0.080 / 8 / $segment)]

remove-all-packet-headers
add-packet-header IP TCP Flags
ns-random $seed
set ns [new Simulator]
$ns use-scheduler Heap

proc connect {a b rate delay packets} {
  global ns
  $ns duplex-link $a $b ${rate}Mb $delay DropTail
  $ns queue-limit $a $b $packets
  $ns queue-limit $b $a $packets
}

set left [$ns node]
set right [$ns node]
connect $left $right $rate 30ms $buffer
set rng [new RNG]
$rng seed $seed
for {set i 0} {$i < 2 * $flows} {incr i} {
  set a [$ns node]
  set b [$ns node]
  connect $a $left 1000 5ms 100000
  connect $b $right 1000 5ms 100000
  set tcp [new Agent/TCP/Sack1]
  set sink [new Agent/TCPSink/Sack1/DelAck]
  $tcp set packetSize_ $segment
  $tcp set window_ 100000
  $tcp set maxcwnd_ 100000
  $tcp set windowInit_ 10
  $tcp set timestamps_ true
  $sink set ts_echo_rfc1323_ true
  if {$i < $flows} { lassign [list $a $b] from to } else { lassign [list $b $a] from to }
  $ns attach-agent $from $tcp
  $ns attach-agent $to $sink
  $ns connect $tcp $sink
  set ftp [new Application/FTP]
  $ftp attach-agent $tcp
  $ns at [$rng uniform 0 1] "$ftp start"
  lappend senders $tcp
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
  global ns queue integral before senders start rate duration warmup
  set wall [expr ([clock microseconds] - $start) / 1e6]
  $integral newpoint [$ns now] [$queue set pkts_]
  foreach counter {bdepartures_ pdrops_ parrivals_} {
    set during($counter) [expr double([$queue set $counter]) - $before($counter)]
  }
  set data 0
  foreach tcp $senders { incr data [$tcp set ack_] }
  set measured [expr $duration - $warmup]
  puts [format {{"data_packets":%d,"wall_s":%.3f,"utilization":%.4f,"queue_mean_packets":%.1f,"drop_rate":%.6f}} \
    $data $wall [expr $during(bdepartures_) * 8 / ($rate * 1e6 * $measured)] \
    [expr ([$integral set sum_] - $before(sum)) / $measured] [expr $during(pdrops_) / $during(parrivals_)]]
  exit 0
}
$ns at $warmup begin
$ns at $duration finish
set start [clock microseconds]
$ns run
