//! The least of HTTP/1.1 that a scraper needs: one GET, one answer, and the connection is closed. A client that is
//! slow, silent or talks nonsense costs a thread for two seconds, and there are at most eight: a ninth takes the place of
//! the one that has been there longest, so that no number of silent ones keeps a scraper out.

use super::Gauges;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one client may take for all it says and hears.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many are served at once.
const MOST: usize = 8;
/// A longer request is none of a scraper.
const LONGEST: usize = 8 << 10;

/// Answers on `listener`, on threads of its own, as long as this process lives.
pub fn serve(listener: TcpListener, gauges: Gauges) -> std::io::Result<()> {
    let serving = Arc::new(Mutex::new(VecDeque::<(u64, TcpStream)>::new()));
    std::thread::Builder::new().name("metrics".into()).stack_size(128 << 10).spawn(move || {
        for number in 0u64.. {
            // Out of descriptors, or the client is gone again: the next may do better.
            let Ok((client, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            let Ok(handle) = client.try_clone() else { continue };
            let mut clients = lock(&serving);
            if clients.len() >= MOST
                && let Some((_, oldest)) = clients.pop_front()
            {
                // Its thread sees the end of the connection, and ends.
                let _ = oldest.shutdown(std::net::Shutdown::Both);
            }
            clients.push_back((number, handle));
            drop(clients);
            let (served, gauges) = (serving.clone(), gauges.clone());
            let answer = move || {
                // It went away, or was too slow: nobody is left to tell.
                let _ = answer(client, &gauges);
                lock(&served).retain(|(other, _)| *other != number);
            };
            let started = std::thread::Builder::new().name("scrape".into()).stack_size(128 << 10).spawn(answer);
            if started.is_err() {
                lock(&serving).retain(|(other, _)| *other != number);
            }
        }
    })?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(mut client: TcpStream, gauges: &Gauges) -> std::io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    client.set_write_timeout(Some(PATIENCE))?;
    let request = request(&mut client, deadline)?;
    let (status, words) = match first_line(&request) {
        _ if request.len() >= LONGEST => ("431 Request Header Fields Too Large", "too long\n".to_owned()),
        Some(("GET" | "HEAD", "/metrics")) => ("200 OK", gauges.to_text()),
        Some(("GET" | "HEAD", _)) => ("404 Not Found", "the numbers are at /metrics\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
        None => ("400 Bad Request", "GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\n",
        words.len()
    );
    let words = if first_line(&request).is_some_and(|(method, _)| method == "HEAD") { String::new() } else { words };
    client.write_all((head + &words).as_bytes())?;
    client.shutdown(std::net::Shutdown::Write)?;
    // What the client still sends would make the kernel reset the connection, and our answer with it.
    let mut rest = [0; 1024];
    let mut left = LONGEST;
    while left > 0 && until(&client, deadline) {
        match client.read(&mut rest) {
            Ok(read) if read > 0 => left = left.saturating_sub(read),
            _ => break,
        }
    }
    Ok(())
}

/// Sets how long a read may take; false if the time is over.
fn until(client: &TcpStream, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    !left.is_zero() && client.set_read_timeout(Some(left)).is_ok()
}

/// Reads up to the blank line that ends a request's head.
fn request(client: &mut TcpStream, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut block = [0; 1024];
    while request.len() < LONGEST && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if !until(client, deadline) {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        match client.read(&mut block)? {
            0 => break,
            read => request.extend_from_slice(&block[..read]),
        }
    }
    Ok(request)
}

/// The method and the path, without its query.
fn first_line(request: &[u8]) -> Option<(&str, &str)> {
    let line = request.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.trim_end().split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let fits = is_method && path.starts_with('/') && version.starts_with("HTTP/1.") && words.next().is_none();
    fits.then(|| (method, path.split('?').next().unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foxlaunch_shared::ids::Attempt;
    use proptest::prelude::*;

    fn started() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, Gauges::new("r", "run", Attempt(1))).unwrap();
        address
    }

    fn ask(address: std::net::SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = client.write_all(request);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_scraper_is_answered_and_others_are_told_so() {
        let address = started();
        let page = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("\r\n\r\n# HELP foxlaunch_up"), "{page}");
        assert!(
            page.contains(&format!("Content-Length: {}\r\n", page.split("\r\n\r\n").nth(1).unwrap().len())),
            "{page}"
        );
        let head = ask(address, b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\x02\x00\r\n\r\n", "400"),
            (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", "400"),
            (&[b'x'; 20_000], "431"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        }
    }

    #[test]
    fn silent_clients_keep_no_one_out() {
        let address = started();
        let silent: Vec<TcpStream> = (0..3 * MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        for _ in 0..20 {
            assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        }
        drop(silent);
    }

    proptest! {
        #[test]
        fn no_request_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), path in "/[a-z?]{0,8}") {
            let _ = first_line(&bytes);
            let line = format!("GET {path} HTTP/1.1\r\n");
            prop_assert_eq!(first_line(line.as_bytes()), Some(("GET", path.split('?').next().unwrap())));
        }
    }
}
