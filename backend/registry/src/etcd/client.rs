//! Requests to etcd over HTTP or HTTPS: which endpoint, how long, as whom, and what an error means.

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use heliostat_base::clock::monotonic_ns;
use serde_json::Value as Json;
use ureq::{Agent, Timeout};

use super::access::{authentication, is_about_token, token_of, Access, TOKEN_NS};
use super::failure::Failure;

/// Endpoints in one configuration.
const ENDPOINTS_MAX: usize = 16;
/// Bytes of an answer: as many records as there may be in one, in base64, and some for etcd's own.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// How long a connection may take: the next endpoint has to have its turn before a deadline.
const CONNECT_NS_MAX: u64 = 1_000_000_000;

/// One of etcd's servers: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint(String);

/// All of them, and the beginning of our keys there.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// In the order in which they are tried.
    pub servers: Vec<Endpoint>,
    /// What our keys begin with.
    pub prefix: String,
    /// How they are reached.
    access: Access,
}

/// What is asked over.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    endpoints: Arc<Endpoints>,
    /// Which answered last.
    at: Arc<Mutex<usize>>,
    /// By what etcd knows us, and since when.
    token: Arc<Mutex<Option<(String, u64)>>>,
}

impl Endpoints {
    /// Endpoints with commas between them, as the configuration has them.
    ///
    /// # Errors
    /// The text says which one is wrong, and what would be right.
    pub fn parse(text: &str, prefix: &str) -> Result<Endpoints, String> {
        let servers = text.split(',').map(Endpoint::parse).collect::<Result<Vec<_>, _>>()?;
        if servers.len() > ENDPOINTS_MAX {
            return Err(format!(
                "{} endpoints, at most {ENDPOINTS_MAX} are allowed",
                servers.len()
            ));
        }
        let is_plain = prefix.len() <= 128 && prefix.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || !prefix.starts_with('/') || !prefix.ends_with('/') {
            let wanted = "printable, begins and ends with /, and has 128 characters at most";
            return Err(format!("{prefix:?} is no prefix of keys: one is {wanted}"));
        }
        Ok(Endpoints { servers, prefix: prefix.to_owned(), access: Access::default() })
    }

    /// The same, reached in this way.
    ///
    /// # Errors
    /// TLS where an endpoint has none, or the other way round; a password that would go over a network
    /// in the clear.
    pub fn by(self, access: Access) -> Result<Endpoints, String> {
        for server in &self.servers {
            match (server.is_tls(), &access.tls) {
                (true, None) => {
                    return Err(format!("{server} takes registry_ca: who may have signed for it"))
                }
                (false, Some(_)) => {
                    return Err(format!("registry_ca is there, but {server} has no TLS"))
                }
                _ => {}
            }
            if access.user.is_some() && !server.is_tls() && !server.is_here() {
                return Err(format!(
                    "the password would go to {server} in the clear: https:// is needed"
                ));
            }
        }
        Ok(Endpoints { access, ..self })
    }
}

impl Endpoint {
    fn parse(text: &str) -> Result<Endpoint, String> {
        let text = text.trim().trim_end_matches('/');
        let at = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let at = at.unwrap_or_default();
        let (host, port) = at.rsplit_once(':').unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_host = at.parse::<SocketAddr>().is_ok()
            || (!host.is_empty() && host.len() <= 253 && host.bytes().all(is_name));
        if !is_host || port.parse::<u16>().ok().is_none_or(|port| port == 0) {
            let wanted = "http://HOST:PORT is, or https://HOST:PORT";
            return Err(format!("{text:?} is no endpoint of etcd: {wanted}"));
        }
        Ok(Endpoint(text.to_owned()))
    }

    fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// Whether it is on this machine, whoever else listens.
    fn is_here(&self) -> bool {
        let at = self.0.rsplit_once("//").map_or("", |it| it.1);
        let address = at.parse::<SocketAddr>();
        address.map_or(at.starts_with("localhost:"), |it| it.ip().is_loopback())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.servers.iter().map(|server| server.0.as_str()).collect();
        write!(f, "etcd:{}", servers.join(","))
    }
}

impl Client {
    pub(crate) fn new(endpoints: Endpoints) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // No connection is used twice: what fails on one then says whether it was sent.
            .max_idle_connections(0)
            .proxy(None);
        let config = match endpoints.access.tls.clone() {
            Some(tls) => config.tls_config(tls),
            None => config,
        };
        let (at, token) = (Arc::new(Mutex::new(0)), Arc::default());
        Client { agent: config.build().new_agent(), endpoints: Arc::new(endpoints), at, token }
    }

    /// What our keys begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.endpoints.prefix
    }

    /// Asks, and reads the whole answer. Where an endpoint is not reached the next is tried.
    pub(crate) fn ask(&self, path: &str, body: &Json, deadline_ns: u64) -> Result<Json, Failure> {
        let text = body.to_string();
        let mut unreached = Vec::new();
        for _ in 0..self.endpoints.servers.len() {
            match self.ask_one(path, &text, deadline_ns) {
                Err(Failure::NotSent(why)) => unreached.push(format!("{}: {why}", self.pass_on())),
                Err(why) if self.knows_us() && is_about_token(&why) => {
                    self.forget_token();
                    return self.ask_one(path, &text, deadline_ns);
                }
                other => return other,
            }
        }
        Err(Failure::NotSent(unreached.join("; ")))
    }

    fn ask_one(&self, path: &str, body: &str, deadline_ns: u64) -> Result<Json, Failure> {
        read_answer(self.open(path, body, deadline_ns)?)
    }

    /// Asks the endpoint that answered last; its body is still to be read.
    pub(crate) fn open(
        &self,
        path: &str,
        body: &str,
        deadline_ns: u64,
    ) -> Result<ureq::http::Response<ureq::Body>, Failure> {
        let token = self.token(deadline_ns)?;
        self.send(path, body, token.as_deref(), deadline_ns)
    }

    /// By what etcd knows us: what it gave lately, or gives now.
    fn token(&self, deadline_ns: u64) -> Result<Option<String>, Failure> {
        let Some(user) = &self.endpoints.access.user else { return Ok(None) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_fresh = |since: u64| monotonic_ns().saturating_sub(since) < TOKEN_NS;
        if let Some((token, _)) = known.filter(|it| is_fresh(it.1)) {
            return Ok(Some(token));
        }
        let begun_ns = monotonic_ns();
        let asked = self.send("/v3/auth/authenticate", &authentication(user), None, deadline_ns);
        // Nothing was asked of etcd yet but this.
        let answer = asked.and_then(read_answer).map_err(|failure| match failure {
            Failure::Lost(why) => Failure::NotSent(why),
            other => other,
        })?;
        let token = token_of(&answer)?;
        let mut kept = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((token.clone(), begun_ns));
        Ok(Some(token))
    }

    fn knows_us(&self) -> bool {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The next request brings another one.
    pub(crate) fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn send(
        &self,
        path: &str,
        body: &str,
        token: Option<&str>,
        deadline_ns: u64,
    ) -> Result<ureq::http::Response<ureq::Body>, Failure> {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Err(Failure::NotSent("no time is left".to_owned()));
        }
        let server = &self.endpoints.servers[self.at() % self.endpoints.servers.len()];
        let request = self.agent.post(format!("{}{path}", server.0));
        let request = request
            .config()
            .timeout_global(Some(Duration::from_nanos(left_ns)))
            .timeout_connect(Some(Duration::from_nanos(left_ns.min(CONNECT_NS_MAX))))
            .build();
        let request = match token {
            Some(token) => request.header("Authorization", token),
            None => request,
        };
        request.send(body).map_err(|error| match &error {
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
                Failure::NotSent(error.to_string())
            }
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                Failure::NotSent("no connection in time".to_owned())
            }
            ureq::Error::Io(io) if is_before_sending(io) => Failure::NotSent(io.to_string()),
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => Failure::NotSent(error.to_string()),
            _ => Failure::Lost(error.to_string()),
        })
    }

    fn at(&self) -> usize {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with the next endpoint; the one that did not answer comes back.
    pub(crate) fn pass_on(&self) -> &Endpoint {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = &self.endpoints.servers;
        let left = &servers[*at % servers.len()];
        *at = (*at + 1) % servers.len();
        left
    }
}

/// Reads the whole answer.
fn read_answer(mut response: ureq::http::Response<ureq::Body>) -> Result<Json, Failure> {
    let status = response.status();
    let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
    let bytes = read.map_err(|error| Failure::Lost(error.to_string()))?;
    let words = || format!("HTTP status {status}, and no JSON of etcd");
    let json: Json = serde_json::from_slice(&bytes).map_err(|_| Failure::Lost(words()))?;
    if status.is_success() {
        return Ok(json);
    }
    let code = json["code"].as_i64().ok_or_else(|| Failure::Lost(words()))?;
    let said = json["message"].as_str().or_else(|| json["error"].as_str());
    Err(Failure::Error(code, shortened(said.unwrap_or_default())))
}

/// Errors that connecting alone can have, and looking at etcd's certificate.
fn is_before_sending(error: &std::io::Error) -> bool {
    use ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let is_certificate = matches!(of_tls, Some(rustls::Error::InvalidCertificate(_)));
    let kind = error.kind();
    matches!(kind, AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkUnreachable)
        || is_certificate
}

/// Foreign words, not too many, and nothing that a terminal obeys.
fn shortened(words: &str) -> String {
    words.chars().filter(|it| !it.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_wrong_ones_are_named() {
        let two = Endpoints::parse("http://127.0.0.1:2379, http://localhost:2379/", "/heliostat/");
        let two = two.unwrap();
        assert_eq!(two.to_string(), "etcd:http://127.0.0.1:2379,http://localhost:2379");
        for (text, words) in [
            ("127.0.0.1:2379", "http://HOST:PORT is"),
            ("http://localhost", "is no endpoint"),
            ("http://localhost:0", "is no endpoint"),
            ("http://localhost b:1", "is no endpoint"),
            ("http://localhost:p@a:1", "is no endpoint"),
            ("", "is no endpoint"),
        ] {
            let error = Endpoints::parse(text, "/h/").unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(Endpoints::parse("http://localhost:1", "h").unwrap_err().contains("is no prefix"));
    }

    #[test]
    fn tls_and_passwords_go_where_they_should() {
        let user = Some(("ann".to_owned(), "x".to_owned()));
        let by = |text: &str, user| {
            let access = Access { tls: None, user };
            Endpoints::parse(text, "/h/").unwrap().by(access).map(|_| ())
        };
        assert!(by("https://localhost:1", None).unwrap_err().contains("takes registry_ca"));
        let words = by("http://127.0.0.1:1,http://HOST:1", user.clone()).unwrap_err();
        assert!(words.contains("http://HOST:1 in the clear"), "{words}");
        for here in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
            assert_eq!(by(here, user.clone()), Ok(()), "{here}");
        }
    }

    #[test]
    fn an_endpoint_where_nobody_listens_is_not_sent_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let endpoints = Endpoints::parse(&format!("http://127.0.0.1:{port}"), "/h/").unwrap();
        let deadline_ns = monotonic_ns() + 5_000_000_000;
        let failed = Client::new(endpoints).ask("/v3/kv/range", &Json::Null, deadline_ns);
        assert!(
            matches!(&failed, Err(Failure::NotSent(why)) if why.contains("refused")),
            "{failed:?}"
        );
    }
}
