//! A bucket in memory that answers as S3 does, as far as backups need it. It refuses requests
//! without a signature as AWS' documentation defines it ("Authenticating Requests: Using Query
//! Parameters").

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::hmac;
use sha2::{Digest as _, Sha256};

/// Who may ask.
pub const KEY: &str = "key";
pub const SECRET: &str = "secret";

#[derive(Default)]
struct Content {
    objects: BTreeMap<String, Vec<u8>>,
    /// Parts of uploads that are not complete, by their numbers.
    uploads: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
}

/// A request, as it came.
struct Request {
    method: String,
    path: String,
    query: String,
    host: String,
    body: Vec<u8>,
}

/// Starts one, named `backups`; returns its URL. It ends with the process.
pub fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let content = Arc::<Mutex<Content>>::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let content = Arc::clone(&content);
            std::thread::spawn(move || serve(&stream, &content));
        }
    });
    url
}

fn serve(stream: &TcpStream, content: &Mutex<Content>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let (status, body) = if is_signed(&request) {
            let mut content = content.lock().unwrap_or_else(PoisonError::into_inner);
            answer(&request, &mut content)
        } else {
            (403, error("SignatureDoesNotMatch"))
        };
        let head = format!(
            "HTTP/1.1 {status} -\r\netag: \"{}\"\r\ncontent-length: {}\r\n\r\n",
            hex(&Sha256::digest(&request.body)),
            body.len()
        );
        let mut stream = stream;
        if stream
            .write_all(&[head.as_bytes(), &body].concat())
            .is_err()
        {
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        (!line.is_empty()).then(|| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?')?;
    let (path, query) = (path.to_owned(), query.to_owned());
    let (mut host, mut length) = (String::new(), 0);
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(": ") else {
            break;
        };
        match &*name.to_lowercase() {
            "host" => value.clone_into(&mut host),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        method,
        path,
        query,
        host,
        body,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_signed(request: &Request) -> bool {
    let Some((query, signature)) = request.query.split_once("&X-Amz-Signature=") else {
        return false;
    };
    let mut pairs: Vec<&str> = query.split('&').collect();
    pairs.sort_unstable();
    let value = |name: &str| {
        let found = pairs.iter().find_map(|pair| pair.strip_prefix(name));
        found.and_then(|rest| rest.strip_prefix('=')).unwrap_or("")
    };
    let credential = value("X-Amz-Credential").replace("%2F", "/");
    let Some((key, scope)) = credential.split_once('/') else {
        return false;
    };
    let (time, day) = (value("X-Amz-Date"), scope.split('/').next().unwrap_or(""));
    let canonical = format!(
        "{}\n{}\n{}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD",
        request.method,
        request.path,
        pairs.join("&"),
        request.host
    );
    let digest = hex(&Sha256::digest(canonical.as_bytes()));
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
    let first = format!("AWS4{SECRET}").into_bytes();
    let parts = scope.split('/').chain([&*to_sign]);
    let wanted = parts.fold(first, |key, part| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        hmac::sign(&key, part.as_bytes()).as_ref().to_vec()
    });
    key == KEY
        && time.starts_with(day)
        && scope.ends_with("/s3/aws4_request")
        && signature == hex(&wanted)
}

fn error(code: &str) -> Vec<u8> {
    format!("<Error><Code>{code}</Code><Message>no</Message></Error>").into_bytes()
}

fn answer(request: &Request, content: &mut Content) -> (u16, Vec<u8>) {
    let value = |name: &str| {
        let mut pairs = request.query.split('&');
        pairs.find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            (key == name).then(|| value.replace("%2F", "/"))
        })
    };
    let Some(name) = request.path.strip_prefix("/backups/").map(str::to_owned) else {
        return (404, error("NoSuchBucket"));
    };
    match (&*request.method, value("uploadId")) {
        ("GET", _) if name.is_empty() => {
            let prefix = value("prefix").unwrap_or_default();
            (200, list(content, &prefix, value("continuation-token")))
        }
        ("GET", _) => match content.objects.get(&name) {
            Some(object) => (200, object.clone()),
            None => (404, error("NoSuchKey")),
        },
        ("POST", None) => {
            content.uploads.insert(name.clone(), BTreeMap::new());
            let id = format!("<R><UploadId>{name}&amp;1</UploadId></R>");
            (200, id.into_bytes())
        }
        ("PUT", Some(_)) => {
            let number = value("partNumber").and_then(|number| number.parse().ok());
            let upload = content.uploads.entry(name).or_default();
            upload.insert(number.unwrap_or(0), request.body.clone());
            (200, Vec::new())
        }
        ("POST", Some(id)) if id == format!("{name}%261") => {
            let told = String::from_utf8_lossy(&request.body).into_owned();
            let parts = content.uploads.remove(&name).unwrap_or_default();
            if told.matches("<Part>").count() != parts.len() {
                return (400, error("InvalidPart"));
            }
            let whole = parts.into_values().flatten().collect();
            content.objects.insert(name, whole);
            (200, b"<R><ETag>e</ETag></R>".to_vec())
        }
        ("DELETE", Some(_)) => {
            content.uploads.remove(&name);
            (204, Vec::new())
        }
        ("DELETE", None) => {
            content.objects.remove(&name);
            (204, Vec::new())
        }
        _ => (400, error("InvalidRequest")),
    }
}

/// One object a page, so that every list has several; the last page has an empty token.
fn list(content: &Content, prefix: &str, token: Option<String>) -> Vec<u8> {
    let after = token.unwrap_or_default();
    let mut found = content
        .objects
        .iter()
        .filter(|(name, _)| name.starts_with(prefix) && **name > after);
    let page = found.next().map_or_else(String::new, |(name, object)| {
        format!(
            "<Contents><Key>{name}</Key><Size>{}</Size></Contents>",
            object.len()
        )
    });
    let next = found
        .next()
        .and(page.split(['>', '<']).nth(4))
        .unwrap_or("");
    format!(
        "<ListBucketResult>{page}<NextContinuationToken>{next}</NextContinuationToken>\
         </ListBucketResult>"
    )
    .into_bytes()
}
