//! A time stamp by an authority of RFC 3161: OpenSSL's, on this machine.

#![cfg(feature = "c2pa")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail loudly"
)]

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use provenance::credentials::{
    AssetOrigin, ContentSigner, CredentialsStatus, MediaFormat, OriginStatement, PemSigner,
    SignFailure, SignatureAlgorithm, SourceType, TrustAnchors, read, self_made, sign,
};

const FILM: &[u8] = include_bytes!("../data/film.mp4");
const DAY_S: i64 = 86_400;

fn openssl(folder: &Path, words: &str) -> Vec<u8> {
    let mut command = Command::new("openssl");
    let done = command.args(words.split(' ')).current_dir(folder).output();
    let done = done.expect("this test needs openssl: apt-get install openssl");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "openssl {words}: {said}");
    done.stdout
}

/// Its root, its certificate for stamping, and its settings.
fn authority() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        at,
        &format!("req -x509 {key} -days 30 -subj /O=Here/CN=Root -keyout root.key -out root.pem"),
    );
    openssl(
        at,
        &format!("req {key} -subj /O=Here/CN=Stamps -keyout tsa.key -out tsa.csr"),
    );
    let uses = "keyUsage = critical, digitalSignature\nextendedKeyUsage = critical, timeStamping\n";
    std::fs::write(at.join("uses"), uses).unwrap();
    openssl(
        at,
        "x509 -req -in tsa.csr -CA root.pem -CAkey root.key -CAcreateserial -days 30 -extfile uses -out tsa.pem",
    );
    let settings = "[tsa]\nserial = serial\nsigner_cert = tsa.pem\ncerts = root.pem\nsigner_key = tsa.key\n\
                    signer_digest = sha256\ndefault_policy = 1.2.3.4.1\ndigests = sha256, sha384, sha512\n";
    std::fs::write(at.join("tsa.cnf"), settings).unwrap();
    std::fs::write(at.join("serial"), "01").unwrap();
    folder
}

/// Has its signatures stamped.
struct Stamped<'a>(PemSigner, &'a Path);

impl ContentSigner for Stamped<'_> {
    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }

    fn certificates(&self) -> Result<Vec<Vec<u8>>, SignFailure> {
        self.0.certificates()
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignFailure> {
        self.0.sign(bytes)
    }

    fn time_stamp(&self, request: &[u8]) -> Option<Result<Vec<u8>, SignFailure>> {
        std::fs::write(self.1.join("asked"), request).unwrap();
        Some(Ok(openssl(
            self.1,
            "ts -reply -config tsa.cnf -section tsa -queryfile asked",
        )))
    }
}

fn today() -> String {
    let said = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    said.trim().to_owned()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "OpenSSL's authority has the machine's clock and no other"
)]
fn a_signature_is_stamped_by_an_authority_and_its_time_is_told() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    let folder = authority();
    let chain = self_made("An installation", SignatureAlgorithm::Es256, now - DAY_S).unwrap();
    let signer = PemSigner::new(
        &chain.certificates_pem,
        &chain.key_pem,
        SignatureAlgorithm::Es256,
    )
    .unwrap();
    let statement = OriginStatement {
        title: "film",
        generator: ("Mediagate", "0.1.0"),
        model: "video-1",
        provider: None,
        prompt: None,
        when: "2026-11-24T12:00:00Z",
        origin: AssetOrigin::Created(SourceType::TrainedAlgorithmicMedia),
    };
    let before = today();
    let signer = Stamped(signer, folder.path());
    let signed = sign(FILM, MediaFormat::Mp4, &statement, &signer).unwrap();
    let answer = read(&signed, MediaFormat::Mp4, &TrustAnchors::default()).unwrap();
    assert_eq!(answer.status, CredentialsStatus::Valid, "{answer:?}");
    let told = answer.signer.unwrap().time.unwrap();
    let day = told.get(..10).unwrap();
    assert!(before.as_str() <= day && day <= today().as_str(), "{told}");
}
