//! Our own standard streams, seen from outside: pipes, sockets, files.
#![cfg(target_os = "linux")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use common::probe;

const LINES: &str = "one\ntwo\nthr\u{e9}e\n";

#[test]
fn pipes_echo_and_nothing_else_gets_into_the_protocol() {
    let mut process = Command::new(probe())
        .arg("echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(b"one\n\xff\nlast").unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"one\n\xff\nlast\n");
    assert_eq!(output.stderr, b"this must not get into the protocol\n");
    assert!(output.status.success());
}

#[test]
fn sockets_echo_as_those_that_node_gives_its_children() {
    let (input, theirs_in) = UnixStream::pair().unwrap();
    let (mut output, theirs_out) = UnixStream::pair().unwrap();
    let mut command = Command::new(probe());
    command
        .arg("echo")
        .stdin(OwnedFd::from(theirs_in))
        .stdout(OwnedFd::from(theirs_out))
        .stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    drop(command);
    // More than the socket's buffers hold, so that both sides must wait for each other.
    let writing = std::thread::spawn(move || {
        let mut input = input;
        for _ in 0..5000 {
            input.write_all(&[b"x".repeat(500), b"\n".to_vec()].concat()).unwrap();
        }
    });
    let mut seen = Vec::new();
    output.read_to_end(&mut seen).unwrap();
    writing.join().unwrap();
    assert_eq!(seen.len(), 5000 * 501);
    assert!(process.wait().unwrap().success());
}

#[test]
fn files_are_read_and_written_too() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::write(&input, LINES.repeat(10_000)).unwrap();
    let status = Command::new(probe())
        .arg("echo")
        .stdin(File::open(&input).unwrap())
        .stdout(File::create(&output).unwrap())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(std::fs::read_to_string(&output).unwrap(), LINES.repeat(10_000));
}

#[test]
fn descriptors_shared_with_others_stay_in_blocking_mode() {
    let (pipe_in, mut to_pipe) = std::io::pipe().unwrap();
    let (mut from_pipe, pipe_out) = std::io::pipe().unwrap();
    let (socket_in, mut to_socket) = UnixStream::pair().unwrap();
    let (mut from_socket, socket_out) = UnixStream::pair().unwrap();
    shared(&pipe_in.into(), &pipe_out.into(), &mut to_pipe, &mut from_pipe);
    shared(&socket_in.into(), &socket_out.into(), &mut to_socket, &mut from_socket);
}

/// Runs the echo on copies of our descriptors and looks at their mode while it runs.
fn shared(input: &OwnedFd, output: &OwnedFd, to: &mut impl Write, from: &mut impl Read) {
    let mut command = Command::new(probe());
    command.arg("echo").stderr(Stdio::null());
    command.stdin(input.try_clone().unwrap()).stdout(output.try_clone().unwrap());
    let mut process = command.spawn().unwrap();
    to.write_all(b"hello\n").unwrap();
    let mut answer = [0; 6];
    from.read_exact(&mut answer).unwrap();
    for fd in [input, output] {
        let flags = rustix::fs::fcntl_getfl(fd).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }
    process.kill().unwrap();
    process.wait().unwrap();
}
