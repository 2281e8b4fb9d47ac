//! The BPF program in the kernel: loads it, gives it to connections, takes its events and writes decisions.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{AsRawLibbpf, Iter, Link, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, RingBufferBuilder};
use nix::sys::mman::{MapFlags as Mapping, ProtFlags, mmap, munmap};
use nix::time::{ClockId, clock_gettime};
use rampmeter_control::registry::Factory;
use rampmeter_units::{Random, Time};
use thiserror::Error;

use crate::Sharing;
use crate::host::{Closed, Host};
use crate::shared::{Control, Event, MAX_SOCKETS, NAME, Place};

/// The compiled `bpf/rampmeter.bpf.c`; `make bpf` compiles it.
static OBJECT: &[u8] = include_bytes!("../bpf/rampmeter.bpf.o");

/// The controller's name in the kernel.
const CONTROLLER: &str = "rampmeter";

/// The daemon looks for events so often while there are some. Where they wake it, each costs 13 us.
const TICK: std::time::Duration = std::time::Duration::from_micros(200);

/// Without events for so long, the next one wakes the daemon.
const IDLE_NS: u64 = 50_000_000;

/// How long it waits for one: connections decide by themselves after a tenth of a second without it.
const WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// Why controllers cannot run under this kernel's TCP.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The process may not load programs into the kernel.
    #[error("the kernel's TCP takes controllers only from root (CAP_BPF and CAP_NET_ADMIN): run it with sudo")]
    Rights,
    /// The kernel has no description of its types.
    #[error("this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), which tells where its TCP keeps what")]
    NoTypes,
    /// Another daemon runs.
    #[error("another `rampmeter kernel` runs on this machine; a kernel has one")]
    Another,
    /// The kernel refuses the program.
    #[error("this kernel does not take TCP controllers from programs (Linux 6.10 or later does): {0}")]
    Refused(String),
    /// A control group cannot be used.
    #[error("control group {path}: {error}")]
    Group {
        /// Its directory.
        path: String,
        /// What is wrong.
        error: io::Error,
    },
    /// What should work did not.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// What the kernel counts over all sockets, and this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Sockets that have this controller now.
    pub sockets: u64,
    /// Acknowledgements.
    pub acks: u64,
    /// Of these, how many were handled without a decision, as Reno does.
    pub fallback_acks: u64,
    /// Events for which the ring buffer had no space. Counters in later ones make up for them.
    pub lost_events: u64,
    /// Sockets beyond the maximum of 4096, which are Reno.
    pub without_place: u64,
}

/// An array that the kernel shares with this process.
struct Shared<T> {
    values: NonNull<T>,
    count: usize,
}

impl<T> Shared<T> {
    fn map(object: &Object, name: &str, count: usize) -> Result<Self, KernelError> {
        let map = find_map(object, name)?;
        let length =
            NonZeroUsize::new(size_of::<T>() * count).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let address =
            unsafe { mmap(None, length, access, Mapping::MAP_SHARED, map.as_fd(), 0) }.map_err(io::Error::from)?;
        Ok(Self { values: address.cast(), count })
    }

    /// `T` has only atomic fields, as the kernel writes them at any time.
    fn values(&self) -> &[T] {
        // SAFETY: the mapping has `count` values, for which every bit pattern is valid, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.count) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has a reference to it any more.
        let _ = unsafe { munmap(self.values.cast(), size_of::<T>() * self.count) };
    }
}

fn find_map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>, KernelError> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| io::Error::other(format!("no map `{name}`")).into())
}

/// The last warning of libbpf, which errors do not have.
static WARNING: Mutex<String> = Mutex::new(String::new());

#[allow(clippy::needless_pass_by_value, reason = "libbpf-rs's type")]
fn keep_warning(level: PrintLevel, message: String) {
    let first = message.lines().next().unwrap_or_default().trim();
    if level == PrintLevel::Warn && !first.is_empty() {
        let mut kept = WARNING.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
        kept.push_str(first);
    }
}

fn refused(error: &libbpf_rs::Error) -> KernelError {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => KernelError::Rights,
        libbpf_rs::ErrorKind::AlreadyExists => KernelError::Another,
        _ => KernelError::Refused(format!("{error}; {}", WARNING.lock().unwrap_or_else(PoisonError::into_inner))),
    }
}

/// Time of `CLOCK_MONOTONIC`, which events have.
fn now() -> Time {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| (time.tv_sec() as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec() as u64));
    Time::from_nanos(time)
}

/// A controller in the kernel, for as long as this value lives.
pub struct Kernel {
    // The first field is dropped first: the kernel forgets the controller, then its programs.
    links: Vec<Link>,
    host: Host,
    places: Shared<Place>,
    control: Shared<Control>,
    object: Object,
}

impl Kernel {
    /// Makes the kernel know the controller, for which `make` decides.
    ///
    /// # Errors
    ///
    /// The kernel or its administrator does not permit it.
    pub fn load(make: Factory, random: Random, sharing: Sharing) -> Result<Self, KernelError> {
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(KernelError::NoTypes);
        }
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep_warning)));
        let open = ObjectBuilder::default().open_memory(OBJECT).map_err(|error| refused(&error))?;
        let mut object = open.load().map_err(|error| refused(&error))?;
        let places = Shared::map(&object, "sockets", MAX_SOCKETS)?;
        let control: Shared<Control> = Shared::map(&object, "control", 1)?;
        let free = find_map(&object, "places")?;
        for place in 0..MAX_SOCKETS as u32 {
            free.update(&[], &place.to_ne_bytes(), MapFlags::ANY).map_err(|error| refused(&error))?;
        }
        control.values()[0].alive_ns.store(now().as_nanos(), Ordering::Relaxed);
        let operations = object.maps_mut().find(|map| map.name() == CONTROLLER);
        let mut operations = operations.ok_or_else(|| io::Error::other("no operations"))?;
        let links = vec![operations.attach_struct_ops().map_err(|error| refused(&error))?];
        Ok(Self { links, host: Host::new(make, random, sharing), places, control, object })
    }

    /// Gives the controller to the connections that processes of the control group (version 2) `directory` begin or accept
    /// from now on.
    ///
    /// # Errors
    ///
    /// `directory` is no control group, or another program decides there.
    pub fn attach(&mut self, directory: &Path) -> Result<(), KernelError> {
        let group = |error| KernelError::Group { path: directory.display().to_string(), error };
        let opened = File::open(directory).map_err(group)?;
        let program = self.object.progs_mut().find(|program| program.name() == "new_connections");
        let program = program.ok_or_else(|| io::Error::other("no program for control groups"))?;
        let link = program.attach_cgroup(opened.as_raw_fd()).map_err(|error| group(io::Error::other(error)))?;
        self.links.push(link);
        Ok(())
    }

    /// Gives the controller to the connections of this network namespace that exist and have the system's default one.
    /// Returns how many there were.
    ///
    /// # Errors
    ///
    /// The kernel does not list its connections.
    pub fn take_over(&self) -> Result<u64, KernelError> {
        self.switch(&default_controller()?, CONTROLLER)
    }

    fn switch(&self, from: &str, to: &str) -> Result<u64, KernelError> {
        let control = &self.control.values()[0];
        for (field, name) in [(&control.from, from), (&control.to, to)] {
            let bytes = name.bytes().take(NAME - 1).chain(std::iter::repeat(0));
            field.iter().zip(bytes).for_each(|(byte, value): (&AtomicU8, u8)| byte.store(value, Ordering::Relaxed));
        }
        let before = control.changed.load(Ordering::Relaxed);
        let program = self.object.progs().find(|program| program.name() == "existing_connections");
        let program = program.ok_or_else(|| io::Error::other("no program for existing connections"))?;
        // SAFETY: the program lives; libbpf returns null and sets errno if it fails.
        let link = unsafe {
            libbpf_rs::libbpf_sys::bpf_program__attach_iter(program.as_libbpf_object().as_ptr(), std::ptr::null())
        };
        let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the link is new, and this is its only owner.
        let link = unsafe { Link::from_ptr(link) };
        let mut connections = Iter::new(&link).map_err(|error| refused(&error))?;
        connections.read_to_end(&mut Vec::new())?; // the program runs for each connection, and prints nothing
        Ok(control.changed.load(Ordering::Relaxed) - before)
    }

    /// Decides for the sockets until `stop` is set, or `on_turn`, which is called often and gets their number, returns false.
    /// Calls `on_closed` for each connection that ends. At the end the connections of this network namespace get the system's
    /// default controller.
    ///
    /// # Errors
    ///
    /// The kernel's events cannot be read.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        mut on_turn: impl FnMut(usize) -> bool,
        mut on_closed: impl FnMut(&Closed),
    ) -> Result<(), KernelError> {
        let events = Rc::new(RefCell::new(Vec::with_capacity(1024)));
        let received = Rc::clone(&events);
        let mut ring = RingBufferBuilder::new();
        let map = find_map(&self.object, "events")?;
        ring.add(&map, move |bytes| {
            received.borrow_mut().extend(Event::from_bytes(bytes));
            0
        })
        .map_err(|error| refused(&error))?;
        let ring = ring.build().map_err(|error| refused(&error))?;
        let control = &self.control.values()[0];
        let mut last_event = now();
        while !stop.load(Ordering::Relaxed) && on_turn(self.host.len()) {
            let time = now();
            control.alive_ns.store(time.as_nanos(), Ordering::Relaxed);
            let polls = time.since(last_event).as_nanos() < IDLE_NS;
            control.polls.store(u64::from(polls), Ordering::Relaxed);
            if polls {
                std::thread::sleep(TICK);
                ring.consume_raw();
            } else {
                ring.poll_raw(WAIT);
            }
            for event in events.borrow_mut().drain(..) {
                last_event = now();
                if let Some(place) = self.places.values().get(event.socket as usize) {
                    self.host.on_event(&event, || place.addresses());
                }
            }
            if self.host.deadline() <= now() {
                self.host.on_deadline(now());
            }
            for (socket, decision) in self.host.decisions() {
                self.places.values()[socket as usize].decide(&decision);
            }
            self.host.closed.drain(..).for_each(|closed| on_closed(&closed));
        }
        if let Ok(default) = default_controller() {
            self.switch(CONTROLLER, &default)?;
        }
        Ok(())
    }

    /// What has happened so far.
    pub fn statistics(&self) -> Statistics {
        let control = &self.control.values()[0];
        let value = |field: &std::sync::atomic::AtomicU64| field.load(Ordering::Relaxed);
        Statistics {
            sockets: self.host.len() as u64,
            acks: value(&control.acks),
            fallback_acks: value(&control.fallback_acks),
            lost_events: value(&control.lost_events),
            without_place: value(&control.without_place),
        }
    }
}

/// The controller of connections for which nothing else is set.
fn default_controller() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?.trim().to_owned())
}
