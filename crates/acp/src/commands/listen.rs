//! `--listen`: where clients come from

use std::str::FromStr;

use acp_link::{ListenAddress, ListenAddressError};

/// Where clients come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere: tasks come from NATS.
    Nobody,
    /// Our own standard streams.
    Stdio,
    /// A socket.
    Socket(ListenAddress),
}

impl Listen {
    /// The address to listen on, if there is one.
    pub fn address(self) -> Option<ListenAddress> {
        match self {
            Listen::Socket(at) => Some(at),
            Listen::Nobody | Listen::Stdio => None,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stdio" => Ok(Listen::Stdio),
            "none" => Ok(Listen::Nobody),
            _ if text.contains("://") => {
                let address: Result<_, ListenAddressError> = text.parse();
                address.map(Listen::Socket).map_err(|error| error.to_string())
            }
            _ => Err(format!("write stdio, {}", ListenAddress::examples())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn listeners_are_told_apart() {
        assert_eq!("stdio".parse(), Ok(Listen::Stdio));
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let web_socket = Listen::Socket(ListenAddress::web_socket(local(3001)));
        assert_eq!("tcp://127.0.0.1:0".parse(), Ok(Listen::Socket(ListenAddress::tcp(local(0)))));
        assert_eq!("ws://127.0.0.1:3001/acp".parse(), Ok(web_socket));
        assert_eq!("ws://127.0.0.1:3001".parse(), Ok(web_socket));
        for wrong in ["", "127.0.0.1:1", "tcp://127.0.0.1", "ws://127.0.0.1:1/other", "ftp://127.0.0.1:1"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
