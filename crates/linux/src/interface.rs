//! Configuration of network devices with the `ioctl`s of netdevice(7), without other programs.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// The network devices in the namespace of the thread that calls [`Interfaces::open`].
pub(crate) struct Interfaces(UdpSocket);

impl Interfaces {
    pub(crate) fn open() -> io::Result<Self> {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map(Self)
    }

    pub(crate) fn up(&self, name: &str) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        self.set(libc::SIOCSIFFLAGS, &mut request)
    }

    pub(crate) fn set_mtu(&self, name: &str, mtu: u32) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_mtu = mtu as c_int;
        self.set(libc::SIOCSIFMTU, &mut request)
    }

    pub(crate) fn set_queue(&self, name: &str, packets: u32) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_metric = packets as c_int; // `ifr_qlen` is in the same union.
        self.set(libc::SIOCSIFTXQLEN, &mut request)
    }

    /// Assigns the address `address`/16. On a loopback device this makes the whole /16 local.
    pub(crate) fn set_address(&self, name: &str, address: Ipv4Addr) -> io::Result<()> {
        let mut request = request(name);
        request.ifr_ifru.ifru_addr = socket_address(address);
        self.set(libc::SIOCSIFADDR, &mut request)?;
        request.ifr_ifru.ifru_netmask = socket_address(MASK);
        self.set(libc::SIOCSIFNETMASK, &mut request)
    }

    /// Adds a route to `network`/16 through the device.
    pub(crate) fn add_route(&self, name: &str, network: Ipv4Addr) -> io::Result<()> {
        // SAFETY: all zeros is a valid `rtentry`.
        let mut route: libc::rtentry = unsafe { mem::zeroed() };
        let mut device = request(name).ifr_name;
        route.rt_dst = socket_address(network);
        route.rt_genmask = socket_address(MASK);
        route.rt_flags = libc::RTF_UP;
        route.rt_dev = device.as_mut_ptr();
        self.set(libc::SIOCADDRT, &mut route)
    }

    fn set<T>(&self, command: libc::c_ulong, request: &mut T) -> io::Result<()> {
        // SAFETY: the commands above take a pointer to the structure they are given here.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), command as _, std::ptr::from_mut(request)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 0, 0);

/// A request with the device name `name` and no other field set.
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: a `sockaddr_in` may be read as a `sockaddr`, and both have 16 bytes.
    unsafe { mem::transmute(address) }
}
