//! Disks that are full, and disks that do not answer.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rampmeter_files::NetError;
use rampmeter_testing::noise;

use crate::common::{TestServer, fetch};

const NONE: Option<&str> = None;

/// From now on other threads do not see what this one and those that it starts mount.
fn own_mounts() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
}

/// Mounts a file system that never answers at this directory. It ends with the file.
fn mount_without_answers(at: &Path) -> nix::Result<fs::File> {
    let device = fs::File::options().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    mount(Some("none"), at, Some("fuse"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options.as_str()))?;
    Ok(device)
}

#[test]
fn a_full_disk_is_reported_and_the_part_is_kept() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(3_000_000, 11)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let small = own_mounts().and_then(|()| mount(NONE, to.path(), Some("tmpfs"), MsFlags::empty(), Some("size=1m")));
    if let Err(error) = small {
        eprintln!("skipped: mounting a small file system needs root ({error})");
        return;
    }
    let error = fetch(server.address, "f", to.path()).unwrap_err();
    assert!(matches!(error, NetError::DiskFull(_)), "{error}");
    assert!(fs::metadata(to.path().join("f.part")).unwrap().len() > 500_000);
}

/// More requests than there are threads for files wait for a disk, as for a network file system whose server is away.
#[test]
fn a_disk_that_does_not_answer_delays_only_who_waits_for_it() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(300_000, 1)).unwrap();
    fs::create_dir(from.path().join("stuck")).unwrap();
    let device = match own_mounts().and_then(|()| mount_without_answers(&from.path().join("stuck"))) {
        Ok(device) => device,
        Err(error) => return eprintln!("skipped: a file system in user space needs root and /dev/fuse ({error})"),
    };
    let server = TestServer::start(from.path(), |options| options.server.threads = 1);
    std::thread::scope(|scope| {
        let fetch = |name: String| fetch(server.address, &name, &to.path().join(name.replace('/', " ")));
        let waiting: Vec<_> = (0..12).map(|n| scope.spawn(move || fetch(format!("stuck/{n}")))).collect();
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        for _ in 0..3 {
            fetch("f".into()).unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        // The disk fails.
        drop(device);
        for thread in waiting {
            let error = thread.join().unwrap().unwrap_err().to_string();
            assert!(error.contains("stuck"), "{error}");
        }
    });
    umount2(&from.path().join("stuck"), MntFlags::MNT_DETACH).unwrap();
}
