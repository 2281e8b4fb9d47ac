//! A line between two network namespaces that delays and loses packets, in real time.
//!
//!     delay_line DEVICE NEAR_PID FAR_PID DELAY_MS LOSS SEED
//!
//! Creates a TUN device of this name in the namespaces of two processes. What the near one sends arrives at the far one
//! after the delay, unless it is lost (each packet with the probability LOSS); what the far one sends is delayed only.
//! Nothing is reordered and no rate is limited. The line works until its standard input ends. Then it prints how late
//! packets left. netem would do the same in the kernel, but not every kernel has it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, setns};
use nix::sys::time::TimeSpec;
use rampmeter_bench_wire::AnyError;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), AnyError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [device, near, far, delay, loss, seed] = words.as_slice() else {
        return Err("write: delay_line DEVICE NEAR_PID FAR_PID DELAY_MS LOSS SEED".into());
    };
    let (near, far) = (open(device, near)?, open(device, far)?);
    let delay = Duration::from_secs_f64(delay.parse::<f64>()? / 1e3);
    let random = Xoshiro256PlusPlus::seed_from_u64(seed.parse()?);
    let forward = Direction { from: near.try_clone()?, to: far.try_clone()?, delay, loss: loss.parse()?, random };
    let back = Direction { from: far, to: near, loss: 0.0, random: forward.random.clone(), ..forward };
    let threads =
        [forward, back].map(|direction| thread::spawn(|| direction.run().unwrap_or_else(|error| end(&error))));
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new())?;
    STOP.store(true, Ordering::Relaxed);
    let mut late = Vec::new();
    for thread in threads {
        late.extend(thread.join().map_err(|_| "a thread panicked")?);
    }
    late.sort_unstable();
    let quantile = |q: f64| late.get((q * late.len() as f64) as usize).map_or(0.0, Duration::as_secs_f64);
    println!(
        "{}",
        serde_json::json!({ "packets": late.len(), "late_p50_s": quantile(0.5), "late_p99_s": quantile(0.99) })
    );
    Ok(())
}

/// Ends the program: half a line is no network.
fn end(error: &io::Error) -> ! {
    eprintln!("delay_line: {error}");
    std::process::exit(1)
}

/// Creates a TUN device in the network namespace of a process.
fn open(device: &str, pid: &str) -> Result<File, AnyError> {
    setns(File::open(format!("/proc/{pid}/ns/net"))?, CloneFlags::CLONE_NEWNET)?;
    let tun = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: all zeros is a valid `ifreq`, and TUNSETIFF takes a pointer to one.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_TUN | libc::IFF_NO_PI)?;
        libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request)
    };
    if result == 0 { Ok(tun) } else { Err(io::Error::last_os_error().into()) }
}

struct Direction {
    from: File,
    to: File,
    delay: Duration,
    loss: f64,
    random: Xoshiro256PlusPlus,
}

impl Direction {
    /// Carries packets until the program stops. Returns how late each left.
    fn run(mut self) -> io::Result<Vec<Duration>> {
        let mut late = Vec::new();
        let mut queue: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        let mut buffer = vec![0; 65536];
        while !STOP.load(Ordering::Relaxed) {
            let due = queue.front().map_or(Duration::from_millis(100), |(due, _)| due.duration_since(Instant::now()));
            ppoll(&mut [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)], Some(TimeSpec::from(due)), None)?;
            while let Some(packet) = receive(&mut self.from, &mut buffer)? {
                if self.loss == 0.0 || !self.random.random_bool(self.loss) {
                    queue.push_back((Instant::now() + self.delay, packet.to_vec()));
                }
                // A steady stream of arrivals must not hold back departures.
                if queue.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                    break;
                }
            }
            while let Some((due, packet)) = queue.pop_front_if(|(due, _)| *due <= Instant::now()) {
                late.push(due.elapsed());
                self.to.write_all(&packet)?;
            }
        }
        Ok(late)
    }
}

/// The next packet that the kernel sends, if there is one.
fn receive<'a>(tun: &mut File, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    match tun.read(buffer) {
        Ok(bytes) => Ok(Some(&buffer[..bytes])),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        // The device is down at first; polling does not wait for that.
        Err(error) if error.raw_os_error() == Some(libc::EIO) => {
            thread::sleep(Duration::from_millis(1));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
