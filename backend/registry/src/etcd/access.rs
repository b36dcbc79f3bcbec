//! How etcd is reached: over TLS, and as which of its users.
//!
//! ```text
//! ask --token, fresh?--> request with it --"invalid auth token"--> authenticate --> request, once more
//! ```
//! What is refused for its token was not done, so it is asked again. Certificates are read here, before
//! the first request, so that what is wrong with them is said by name.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{json, Value as Json};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::failure::Failure;

/// How long a token is used: etcd forgets one that was not used for five minutes, and at its own end.
pub(crate) const TOKEN_NS: u64 = 60_000_000_000;
/// Of gRPC: the token is none, or no more.
const UNAUTHENTICATED: i64 = 16;

/// What is in the files that a configuration names.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Certificates of those who may have signed etcd's own, as PEM. With them etcd is asked over TLS.
    pub authorities: Option<Vec<u8>>,
    /// This node's certificate, with those between it and who signed it, and its key, as PEM.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
    /// A user of etcd, and the password.
    pub user: Option<(String, String)>,
}

/// How etcd is reached. The default is plain HTTP, as nobody.
#[derive(Clone, Default)]
pub struct Access {
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) user: Option<(String, String)>,
}

impl std::fmt::Debug for Access {
    /// Not the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.user.as_ref().map(|it| &it.0);
        f.debug_struct("Access").field("tls", &self.tls.is_some()).field("user", &user).finish()
    }
}

impl Access {
    /// Reads certificates and keys.
    ///
    /// # Errors
    /// The text begins with the key of the configuration whose file is wrong.
    pub fn read(given: Credentials) -> Result<Access, String> {
        let Credentials { authorities, own, user } = given;
        let tls = match (authorities, own) {
            (Some(authorities), own) => Some(tls(&authorities, own.as_ref())?),
            (None, None) => None,
            (None, Some(_)) => {
                return Err("registry_certificate: it takes registry_ca besides".to_owned())
            }
        };
        Ok(Access { tls, user })
    }
}

fn tls(authorities: &[u8], own: Option<&(Vec<u8>, Vec<u8>)>) -> Result<TlsConfig, String> {
    let provider = Arc::new(default_provider());
    let signers = certificates("registry_ca", authorities)?;
    let mut roots = RootCertStore::empty();
    for signer in &signers {
        let added = roots.add(signer.clone());
        added.map_err(|error| format!("registry_ca: a certificate is none: {error}"))?;
    }
    let config = ClientConfig::builder_with_provider(provider.clone());
    let config = config.with_safe_default_protocol_versions().map_err(|it| it.to_string())?;
    let config = config.with_root_certificates(roots);
    let wrong = |error: rustls::Error| format!("registry_certificate, registry_key: {error}");
    let mut builder = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&of_ureq(&signers)))
        .unversioned_rustls_crypto_provider(provider);
    if let Some((certificate, key)) = own {
        let chain = certificates("registry_certificate", certificate)?;
        let read = PrivateKeyDer::from_pem_slice(key);
        let secret = read.map_err(|error| format!("registry_key: {error}"))?;
        // Whether both belong together is found here, and not on the way to etcd.
        config.with_client_auth_cert(chain.clone(), secret).map_err(wrong)?;
        let key = PrivateKey::from_pem(key).map_err(|error| format!("registry_key: {error}"))?;
        builder = builder.client_cert(Some(ClientCert::new_with_certs(&of_ureq(&chain), key)));
    }
    Ok(builder.build())
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = read.map_err(|error| format!("{what}: {error}"))?;
    if all.is_empty() {
        return Err(format!("{what}: it holds no certificate in PEM"));
    }
    Ok(all)
}

fn of_ureq(all: &[CertificateDer<'static>]) -> Vec<Certificate<'static>> {
    all.iter().map(|it| Certificate::from_der(it.as_ref()).to_owned()).collect()
}

/// What etcd is asked for a token.
pub(crate) fn authentication((name, password): &(String, String)) -> String {
    json!({ "name": name, "password": password }).to_string()
}

/// The token in its answer.
pub(crate) fn token_of(answer: &Json) -> Result<String, Failure> {
    let token =
        answer["token"].as_str().filter(|it| it.bytes().all(|byte| byte.is_ascii_graphic()));
    let missing = || Failure::Lost("its answer has no token".to_owned());
    token.map(str::to_owned).ok_or_else(missing)
}

/// Whether a request was refused, and not done, because its token holds no more.
pub(crate) fn is_about_token(failure: &Failure) -> bool {
    match failure {
        Failure::Error(UNAUTHENTICATED, _) => true,
        Failure::Error(_, words) => {
            words.contains("invalid auth token")
                || words.contains("auth: revision in header is old")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(given: Credentials) -> String {
        Access::read(given).unwrap_err()
    }

    #[test]
    fn files_that_hold_nothing_of_use_are_named() {
        let pem = |text: &str| Some(text.as_bytes().to_vec());
        let none = Credentials { authorities: pem("no PEM at all"), ..Credentials::default() };
        assert_eq!(complaint(none), "registry_ca: it holds no certificate in PEM");
        let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let broken = Credentials { authorities: pem(text), ..Credentials::default() };
        assert!(complaint(broken).starts_with("registry_ca: a certificate is none: "));
        let own = Some((Vec::new(), Vec::new()));
        let alone = Credentials { own, ..Credentials::default() };
        assert_eq!(complaint(alone), "registry_certificate: it takes registry_ca besides");
    }

    #[test]
    fn nobody_is_told_a_password() {
        let user = Some(("ann".to_owned(), "secret".to_owned()));
        let access = Access::read(Credentials { user, ..Credentials::default() }).unwrap();
        let said = format!("{access:?}");
        assert!(said.contains("ann") && !said.contains("secret"), "{said}");
    }
}
