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

fn openssl(folder: &Path, args: &str) -> Vec<u8> {
    let mut command = Command::new("openssl");
    let output = command.args(args.split(' ')).current_dir(folder).output();
    let output = output.expect("this test needs openssl: apt-get install openssl");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {args}: {stderr}");
    output.stdout
}

/// An authority's folder: its root, its certificate for stamping, and its settings.
fn authority() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        path,
        &format!("req -x509 {key} -days 30 -subj /O=Here/CN=Root -keyout root.key -out root.pem"),
    );
    openssl(
        path,
        &format!("req {key} -subj /O=Here/CN=Stamps -keyout tsa.key -out tsa.csr"),
    );
    let uses = "keyUsage = critical, digitalSignature\nextendedKeyUsage = critical, timeStamping\n";
    std::fs::write(path.join("uses"), uses).unwrap();
    openssl(
        path,
        "x509 -req -in tsa.csr -CA root.pem -CAkey root.key -CAcreateserial -days 30 -extfile uses -out tsa.pem",
    );
    let settings = "[tsa]\nserial = serial\nsigner_cert = tsa.pem\ncerts = root.pem\nsigner_key = tsa.key\n\
                    signer_digest = sha256\ndefault_policy = 1.2.3.4.1\ndigests = sha256, sha384, sha512\n";
    std::fs::write(path.join("tsa.cnf"), settings).unwrap();
    std::fs::write(path.join("serial"), "01").unwrap();
    folder
}

/// A signer whose signatures are stamped.
struct StampingSigner<'a>(PemSigner, &'a Path);

impl ContentSigner for StampingSigner<'_> {
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
        std::fs::write(self.1.join("request"), request).unwrap();
        Some(Ok(openssl(
            self.1,
            "ts -reply -config tsa.cnf -section tsa -queryfile request",
        )))
    }
}

fn today() -> String {
    let stdout = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let stdout = String::from_utf8(stdout.unwrap().stdout).unwrap();
    stdout.trim().to_owned()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "OpenSSL's authority uses the machine's clock"
)]
fn a_signature_is_stamped_by_an_authority_and_its_time_is_reported() {
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
    let signer = StampingSigner(signer, folder.path());
    let signed = sign(FILM, MediaFormat::Mp4, &statement, &signer).unwrap();
    let report = read(&signed, MediaFormat::Mp4, &TrustAnchors::default()).unwrap();
    assert_eq!(report.status, CredentialsStatus::Valid, "{report:?}");
    let time = report.signer.unwrap().time.unwrap();
    let day = time.get(..10).unwrap();
    assert!(before.as_str() <= day && day <= today().as_str(), "{time}");
}
