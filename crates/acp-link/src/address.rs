//! The address of an agent that listens: which transport reaches it, and where.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

use crate::token;
use crate::transport::{self, Transport};
use crate::{Link, LinkSettings};

/// Where an agent, or a proxy, listens: `tcp://HOST:PORT`, `ws://HOST:PORT/acp`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    transport: &'static dyn Transport,
    url: String,
}

/// The address has a form that we do not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no address of an agent; write {}", transport::examples())]
pub struct AddressError {
    /// What was given.
    pub given: String,
}

/// The connection could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address cannot be used.
    #[error("cannot connect to {url:?}: {why}; write {}", transport::examples())]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody listens there, or not to us.
    #[error("cannot connect to {url}: {error}; does an agent listen there?")]
    Refused {
        /// Where.
        url: String,
        /// What the system said.
        error: io::Error,
    },
    /// What listens there does not speak this transport, or does not let us in.
    #[error("cannot open a connection at {url}: {why}")]
    Handshake {
        /// Where.
        url: String,
        /// What went wrong.
        why: String,
    },
}

impl Address {
    /// A TCP address.
    #[must_use]
    pub fn tcp(place: impl fmt::Display) -> Address {
        Address { transport: &crate::tcp::Tcp, url: format!("tcp://{place}") }
    }

    /// The address as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// Host, and port if there is one.
    #[must_use]
    pub fn authority(&self) -> &str {
        authority(&self.url)
    }

    /// The port that the address names.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let (_, port) = self.authority().rsplit_once(':')?;
        port.parse().ok()
    }

    /// Whether the address is certainly on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let authority = self.authority();
        if authority.contains('@') {
            return false;
        }
        let bracketed = authority.strip_prefix('[').and_then(|host| host.split_once(']'));
        let host = match bracketed {
            Some((host, port)) if port.is_empty() || port.starts_with(':') => host,
            Some(_) => return false,
            None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
        };
        let ip = host.parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Connects, and shows this token if there is one.
    pub async fn connect(&self, wire: &LinkSettings, token: Option<&str>) -> Result<Link, ConnectError> {
        let link = self.transport.connect(&self.url, wire, token).await?;
        if let Some(token) = token.filter(|_| !self.transport.checks_access()) {
            let refused =
                |closed| ConnectError::Refused { url: self.url.clone(), error: io::Error::other(closed) };
            link.tx.send(token::line(token).raw()).await.map_err(refused)?;
        }
        Ok(link)
    }
}

/// Host and port of a URL.
pub(crate) fn authority(url: &str) -> &str {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    place.split(['/', '?', '#']).next().unwrap_or_default()
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        let transport = scheme.and_then(transport::named);
        let transport = transport.ok_or_else(|| AddressError { given: text.to_owned() })?;
        Ok(Address { transport, url: text.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.url, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_on_this_machine_are_told_from_others() {
        for near in ["tcp://127.0.0.1:9000", "ws://localhost:1/acp", "ws://[::1]:1/acp", "ws://127.0.0.1/acp"]
        {
            assert!(address(near).is_loopback(), "{near}");
        }
        for far in [
            "tcp://example.com:9000",
            "ws://127.0.0.1@example.com/acp",
            "ws://127.0.0.1:1@example.com/acp",
            "ws://127.0.0.1.example.com/acp",
            "ws://example.com#@127.0.0.1/acp",
            "ws://[::1].example.com/acp",
            "tcp://localhost.example.com:1",
        ] {
            assert!(!address(far).is_loopback(), "{far}");
        }
    }

    #[test]
    fn an_address_names_its_transport() {
        assert_eq!(address("ws://h:1/acp").port(), Some(1));
        assert_eq!(address("tcp://h").port(), None);
        for wrong in ["h:1", "wss://h:1", "", "tcp:/h:1"] {
            let error = wrong.parse::<Address>().expect_err(wrong).to_string();
            assert!(error.contains("tcp://HOST:PORT or ws://HOST:PORT/acp"), "{error}");
        }
    }
}
