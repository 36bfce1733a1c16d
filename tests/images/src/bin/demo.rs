//! A small server that says its own name, and a client that asks for it.
//!
//! ```text
//! demo serve [HTTP-PORT [ECHO-PORT]]   HTTP: the host name; TCP and UDP: an echo
//! demo get HOST:PORT COUNT             asks COUNT times, each on a new connection
//! demo watch HOST:PORT SECONDS         asks all the while, and counts
//! demo echo HOST:PORT udp|tcp TEXT     sends TEXT, prints what comes back
//! demo connect HOST:PORT COUNT SECONDS holds connections to an echo, and makes new ones all the while
//! demo env | cat PATH                  prints its variables, or a file
//! demo repeat                          gives back what it is told, until that ends
//! demo hold MEBIBYTES                  takes so much memory and keeps it
//! demo fork COUNT                      has so many children at once, or as many as it may
//! demo stretch PATH GIBIBYTES          makes a file that long, without content
//! demo nest PATH DEPTH                 makes so many folders, each in the one before
//! demo stall HOST:PORT COUNT SECONDS   asks by DNS on so many connections, and reads nothing
//! demo keep PATH TEXT                  writes a file and waits until it is on the disk
//! demo fill PATH                       appends blocks of a mebibyte, each waited for, until the
//!                                      disk is full; prints how many are on it
//! demo blocks PATH                     prints with how many whole blocks of `fill` a file begins
//! demo room PATH                       prints the size of the file system of PATH, in bytes
//! ```
//!
//! `get` prints one line an answer: the answer's body, or `error: …`.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    process::ExitCode,
    thread,
    time::{Duration, Instant, SystemTime},
};

use nix::sys::signal::{SigSet, Signal};

const TIMEOUT: Duration = Duration::from_secs(3);

/// How long it goes on serving once it is told to end: clients learn a moment
/// later than the container that it is to go.
const LAST_CALLS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [] | ["serve"] => serve(8080, 7777),
        ["serve", http] => http
            .parse()
            .map_err(other)
            .and_then(|http| serve(http, 7777)),
        ["serve", http, echo] => match (http.parse(), echo.parse()) {
            (Ok(http), Ok(echo)) => serve(http, echo),
            _ => Err(other("ports are numbers from 0 to 65535")),
        },
        ["get", target, count] => match count.parse() {
            Ok(count) => return get(target, count),
            Err(error) => Err(other(error)),
        },
        ["watch", target, seconds] => match seconds.parse() {
            Ok(seconds) => return watch(target, Duration::from_secs(seconds)),
            Err(error) => Err(other(error)),
        },
        ["connect", target, count, seconds] => match (count.parse(), seconds.parse()) {
            (Ok(count), Ok(seconds)) => connect(target, count, Duration::from_secs(seconds)),
            _ => Err(other("counts and seconds are numbers")),
        },
        ["env"] => {
            for (name, value) in std::env::vars() {
                println!("{name}={value}");
            }
            Ok(())
        }
        ["cat", path] => std::fs::read(path).and_then(|bytes| std::io::stdout().write_all(&bytes)),
        ["repeat"] => {
            std::io::copy(&mut std::io::stdin().lock(), &mut std::io::stdout().lock()).map(drop)
        }
        ["keep", path, text] => keep(path, text),
        ["fill", path] => fill(path),
        ["blocks", path] => blocks(path).map(|count| println!("{count}")),
        ["room", path] => room(path).map(|bytes| println!("{bytes}")),
        ["hold", mebibytes] => match mebibytes.parse() {
            Ok(mebibytes) => hold(mebibytes),
            Err(error) => Err(other(error)),
        },
        ["fork", count] => match count.parse() {
            Ok(count) => fork(count),
            Err(error) => Err(other(error)),
        },
        ["child"] => pause(),
        ["stretch", path, gibibytes] => match gibibytes.parse::<u64>() {
            Ok(gibibytes) => stretch(path, gibibytes << 30),
            Err(error) => Err(other(error)),
        },
        ["nest", path, depth] => match depth.parse() {
            Ok(depth) => nest(path, depth),
            Err(error) => Err(other(error)),
        },
        ["stall", target, count, seconds] => match (count.parse(), seconds.parse()) {
            (Ok(count), Ok(seconds)) => stall(target, count, Duration::from_secs(seconds)),
            _ => Err(other("counts and seconds are numbers")),
        },
        ["echo", target, "tcp", text] => echo_tcp(target, text),
        ["echo", target, "udp", text] => echo_udp(target, text),
        _ => Err(other(
            "usage: demo serve [HTTP [ECHO]] | get HOST:PORT COUNT | watch HOST:PORT SECONDS | echo HOST:PORT udp|tcp TEXT | connect HOST:PORT COUNT SECONDS | env | cat PATH | repeat | hold MEBIBYTES | fork COUNT | stretch PATH GIBIBYTES | nest PATH DEPTH | stall HOST:PORT COUNT SECONDS | keep PATH TEXT | fill PATH | blocks PATH | room PATH",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn other(error: impl ToString) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

/// Makes the file `length` bytes long without writing any.
fn stretch(path: &str, length: u64) -> std::io::Result<()> {
    let file = std::fs::File::options().write(true).open(path)?;
    file.set_len(length)
}

fn keep(path: &str, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Returns the content of a block, which says its number everywhere.
fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat((1 << 20) / 8)
}

/// Appends blocks until the disk is full. A block counts once the disk has it.
fn fill(path: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    for number in 0.. {
        let written = file.write_all(&block(number));
        match written.and_then(|()| file.sync_all()) {
            Ok(()) => {}
            Err(error) => {
                println!("{number}");
                return match error.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Ok(()),
                    _ => Err(error),
                };
            }
        }
    }
    Ok(())
}

fn blocks(path: &str) -> std::io::Result<u64> {
    let mut file = std::fs::File::open(path)?;
    let mut found = vec![0; 1 << 20];
    for number in 0.. {
        if file.read_exact(&mut found).is_err() || found != block(number) {
            return Ok(number);
        }
    }
    Ok(0)
}

fn room(path: &str) -> std::io::Result<u64> {
    let found = nix::sys::statvfs::statvfs(path)?;
    Ok(found.blocks() * found.fragment_size())
}

/// Makes a chain of folders that no path from the root can name once it is deep enough.
fn nest(path: &str, depth: u32) -> std::io::Result<()> {
    std::env::set_current_dir(path)?;
    let name = "n".repeat(100);
    for _ in 0..depth {
        std::fs::create_dir(&name)?;
        std::env::set_current_dir(&name)?;
    }
    Ok(())
}

/// Opens connections, writes DNS queries into each until no more are taken, and reads nothing.
fn stall(target: &str, count: usize, time: Duration) -> std::io::Result<()> {
    // Length, header with one question, `kubernetes.default.svc.cluster.local`, A, IN.
    let mut query = vec![0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["kubernetes", "default", "svc", "cluster", "local"] {
        query.push(u8::try_from(label.len()).unwrap_or(0));
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query[1] = u8::try_from(query.len() - 2).unwrap_or(0);
    let ends = Instant::now() + time;
    let mut open = Vec::new();
    let mut refused = 0;
    while Instant::now() < ends {
        if open.len() < count {
            let address = target
                .to_socket_addrs()?
                .next()
                .ok_or_else(|| other("no address"))?;
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => {
                    stream.set_nonblocking(true)?;
                    open.push(stream);
                    continue;
                }
                Err(_) => refused += 1,
            }
        }
        open.retain_mut(
            |stream| match (0..100).try_for_each(|_| stream.write_all(&query)) {
                Ok(()) => true,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            },
        );
        thread::sleep(Duration::from_millis(20));
    }
    println!("{} open, {refused} refused", open.len());
    Ok(())
}

/// Every address of the pod, of both IP versions.
fn any(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

/// The first process of a container gets only the signals that it asks for.
fn end_on_signals() -> std::io::Result<()> {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block()?;
    thread::spawn(move || {
        if signals.wait().is_ok() {
            thread::sleep(LAST_CALLS);
        }
        std::process::exit(0);
    });
    Ok(())
}

fn serve(http: u16, echo: u16) -> std::io::Result<()> {
    end_on_signals()?;
    let name = nix::unistd::gethostname()?.to_string_lossy().into_owned();
    let udp = UdpSocket::bind(any(echo))?;
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(&buffer[..length], from);
        }
    });
    let tcp = TcpListener::bind(any(echo))?;
    thread::spawn(move || {
        for stream in tcp.incoming().flatten() {
            thread::spawn(move || {
                if let Ok(mut writer) = stream.try_clone() {
                    let _ = std::io::copy(&mut &stream, &mut writer);
                }
            });
        }
    });
    println!("{name} serves HTTP on {http}, echo on {echo}");
    for stream in TcpListener::bind(any(http))?.incoming().flatten() {
        let name = name.clone();
        thread::spawn(move || answer(&stream, &name));
    }
    Ok(())
}

fn answer(stream: &TcpStream, name: &str) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.take(1 << 20));
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" || line == "\n" {
            let mut stream = stream;
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{name}\n",
                name.len() + 1
            )?;
        }
    }
}

fn get(target: &str, count: u32) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for _ in 0..count {
        match get_once(target) {
            Ok(body) => println!("{}", body.trim_end()),
            Err(error) => {
                println!("error: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// Asks for a time, some hundred times a second, each on a new connection.
fn watch(target: &str, time: Duration) -> ExitCode {
    let started = Instant::now();
    let (mut answered, mut failed) = (0u32, 0u32);
    while started.elapsed() < time {
        match get_once(target) {
            Ok(_) => answered += 1,
            Err(error) => {
                failed += 1;
                println!("{:.3} s: {error}", started.elapsed().as_secs_f64());
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    println!("{answered} answered, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Holds connections to an echo and uses each of them again and again; meanwhile it makes new
/// ones, each for one use. Says at once what is lost or fails, and about once a second how many
/// there are.
fn connect(target: &str, count: usize, time: Duration) -> std::io::Result<()> {
    end_on_signals()?;
    let started = Instant::now();
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(open_echo(target)?);
    }
    let (mut lost, mut made, mut failed) = (0, 0_u64, 0);
    let mut said = None::<Instant>;
    while started.elapsed() < time {
        held.retain(|stream| match use_echo(stream) {
            Ok(()) => true,
            Err(error) => {
                lost += 1;
                println!("{}: lost: {error}", time_of_day());
                false
            }
        });
        for _ in 0..5 {
            made += 1;
            if let Err(error) = open_echo(target) {
                failed += 1;
                println!("{}: failed: {error}", time_of_day());
            }
        }
        if said.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            said = Some(Instant::now());
            println!(
                "held {} lost {lost} made {made} failed {failed}",
                held.len()
            );
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The time of day in UTC, as logs have it.
fn time_of_day() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let seconds = since.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let (seconds, millis) = (seconds % 60, since.subsec_millis());
    format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

/// A connection to an echo that has answered once.
fn open_echo(target: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&resolve(target)?, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    use_echo(&stream)?;
    Ok(stream)
}

fn use_echo(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut answer = [0; 4];
    stream.write_all(b"here")?;
    stream.read_exact(&mut answer)?;
    if &answer == b"here" {
        Ok(())
    } else {
        Err(other("the answer is another connection's"))
    }
}

fn resolve(target: &str) -> std::io::Result<SocketAddr> {
    target
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| other(format!("`{target}` has no address")))
}

fn get_once(target: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&resolve(target)?, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {target}\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(other("the connection ended within the headers"));
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    String::from_utf8(body).map_err(other)
}

fn pause() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

fn hold(mebibytes: usize) -> std::io::Result<()> {
    end_on_signals()?;
    let mut kept = Vec::new();
    for _ in 0..mebibytes {
        // bytes that are not zero take memory at once
        kept.push(vec![1_u8; 1 << 20]);
    }
    println!("holds {mebibytes} MiB");
    pause()
}

fn fork(count: u32) -> std::io::Result<()> {
    end_on_signals()?;
    let program = std::env::current_exe()?;
    let mut children = Vec::new();
    while children.len() < count as usize {
        match std::process::Command::new(&program).arg("child").spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                println!("{} of {count} children: {error}", children.len());
                break;
            }
        }
    }
    pause()
}

fn echo_tcp(target: &str, text: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&resolve(target)?, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(text.as_bytes())?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer)?;
    println!("{}", String::from_utf8_lossy(&answer));
    Ok(())
}

fn echo_udp(target: &str, text: &str) -> std::io::Result<()> {
    let address = resolve(target)?;
    let local: SocketAddr = if address.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        any(0)
    };
    let socket = UdpSocket::bind(local)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send_to(text.as_bytes(), address)?;
    let mut buffer = [0; 65_536];
    let (length, from) = socket.recv_from(&mut buffer)?;
    if from != address {
        return Err(other(format!("the answer came from {from}, not {address}")));
    }
    println!("{}", String::from_utf8_lossy(&buffer[..length]));
    Ok(())
}
