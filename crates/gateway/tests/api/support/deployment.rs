//! Three gateways and a worker behind `HAProxy`, and callers who repeat their orders.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::balancer::Balancer;
use super::client::install_tls;
use super::program::{Server, other_program, output, program};
use super::{Client, eventually};
use crate::process::{Process, free_port};

/// The number of gateways.
const GATEWAYS: usize = 3;

pub(crate) struct Deployment {
    pub(crate) client: Client,
    gateways: Vec<Option<Server>>,
    worker: Option<Process>,
    ports: Vec<u16>,
    old_program: Option<PathBuf>,
    folder: tempfile::TempDir,
    _balancer: Balancer,
}

impl Deployment {
    /// Starts a deployment with these settings.
    pub(crate) async fn start(toml: &str) -> Self {
        Self::launch(toml, None).await
    }

    /// Like [`Self::start`], with an older program if there is one.
    pub(crate) async fn launch(toml: &str, old_program: Option<PathBuf>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.toml"), toml).unwrap();
        let ports: Vec<u16> = (0..GATEWAYS).map(|_| free_port()).collect();
        let balancer = Balancer::in_front_of(&ports).await;
        let mut deployment = Self {
            client: Client::new(&balancer.base, None),
            gateways: Vec::new(),
            worker: None,
            ports,
            old_program,
            folder,
            _balancer: balancer,
        };
        for number in 0..GATEWAYS {
            let gateway = deployment.gateway(number, true).await;
            deployment.gateways.push(Some(gateway));
        }
        deployment.worker = Some(deployment.worker(true));
        let args = ["keys", "create", "--name", "load", "--rpm", "1000000"];
        let args = [&args[..], &["--max-running", "100000"]].concat();
        let key = deployment.command(&args).await;
        deployment.client.key = Some(key.trim().to_owned());
        deployment
    }

    fn config(&self) -> String {
        let file = self.folder.path().join("m.toml");
        file.to_str().unwrap().to_owned()
    }

    /// The folder that all processes share, because they have no bucket.
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    async fn gateway(&self, number: usize, is_old: bool) -> Server {
        let (data, config) = (self.data(), self.config());
        let (port, args) = (self.ports[number], ["--config", &config]);
        match self.old_program.as_ref().filter(|_| is_old) {
            Some(old_program) => Server::start_old(old_program, port, &data, &args).await,
            None => Server::start_at(port, &data, &args).await,
        }
    }

    fn worker(&self, is_old: bool) -> Process {
        let (data, config) = (self.data(), self.config());
        let data = data.to_str().unwrap();
        let args = ["worker", "--config", &config, "--data", data];
        let mut command = match self.old_program.as_ref().filter(|_| is_old) {
            Some(old_program) => other_program(old_program, &args),
            None => program(&args),
        };
        Process::start(&mut command)
    }

    /// What all processes have logged.
    pub(crate) fn logs(&self) -> String {
        let gateways = self.gateways.iter().flatten().map(Server::stderr);
        let worker = self.worker.iter().map(Process::stderr);
        gateways.chain(worker).collect::<Vec<_>>().join("\n---\n")
    }

    /// Ends a gateway by SIGTERM and starts it again, by the new program or the old one.
    pub(crate) async fn replace(&mut self, number: usize, is_old: bool) {
        let gateway = self.gateways[number].take().unwrap();
        gateway.stop().await;
        self.gateways[number] = Some(self.gateway(number, is_old).await);
    }

    /// Like [`Self::replace`], for the worker.
    pub(crate) async fn replace_worker(&mut self, is_old: bool) {
        self.end_worker().await;
        self.worker = Some(self.worker(is_old));
    }

    async fn end_worker(&mut self) {
        let worker = self.worker.take().unwrap();
        worker.signal("-TERM");
        let worker = std::cell::RefCell::new(worker);
        let ended = eventually("the worker ends", async || {
            worker.borrow_mut().exit_status()
        });
        assert!(ended.await.success());
    }

    /// Runs a command on the same data; returns its standard output.
    pub(crate) async fn command(&self, args: &[&str]) -> String {
        let (config, data) = (self.config(), self.folder.path().join("0"));
        let location = ["--config", &config, "--data", data.to_str().unwrap()];
        let args = [args, &location].concat();
        let output = output(match &self.old_program {
            Some(old_program) => other_program(old_program, &args),
            None => program(&args),
        });
        let output = output.await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ends all processes by SIGTERM.
    pub(crate) async fn stop(mut self) {
        for gateway in self.gateways.drain(..).flatten() {
            gateway.stop().await;
        }
        self.end_worker().await;
    }

    /// Callers, each of whom orders one film after the other, and repeats each order until it is
    /// accepted.
    pub(crate) fn load(&self, callers: usize) -> Load {
        install_tls();
        let (stop, accepted) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let mut callers_running = JoinSet::new();
        for number in 0..callers {
            let caller = Caller {
                http: reqwest::Client::builder()
                    .no_proxy()
                    .timeout(Duration::from_secs(15))
                    .build()
                    .unwrap(),
                client: self.client.clone(),
                name: format!("{}-{number}", uuid::Uuid::now_v7()),
            };
            let (stop, accepted) = (stop.clone(), accepted.clone());
            callers_running.spawn(async move { caller.order(&stop, &accepted).await });
        }
        Load {
            stop,
            accepted,
            callers: callers_running,
        }
    }
}

struct Caller {
    http: reqwest::Client,
    client: Client,
    name: String,
}

/// What callers received.
#[derive(Default)]
pub(crate) struct LoadReport {
    pub(crate) tasks: Vec<String>,
    /// Answers by status; 0 where there was none.
    pub(crate) answers: BTreeMap<u16, usize>,
}

impl Caller {
    async fn order(self, stop: &CancellationToken, accepted: &AtomicUsize) -> LoadReport {
        let mut report = LoadReport::default();
        for number in 0.. {
            if stop.is_cancelled() {
                break;
            }
            let prompt = format!("lake-{}-{number}", self.name);
            let body = json!({"model": "film", "prompt": prompt, "seconds": "4"});
            loop {
                let url = format!("{}/v1/videos", self.client.base);
                let request = self.http.post(url).json(&body);
                let request = request.bearer_auth(self.client.key.as_ref().unwrap());
                let answer = request.header("idempotency-key", &prompt).send().await;
                let status = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
                *report.answers.entry(status).or_default() += 1;
                match answer {
                    Ok(answer) if status == 200 => {
                        let task = answer.headers()["x-task-id"].to_str().unwrap();
                        report.tasks.push(task.to_owned());
                        accepted.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    Ok(answer) => {
                        let headers = answer.headers().clone();
                        let body_text = answer.text().await.unwrap_or_default();
                        assert!(matches!(status, 502..=504), "{status}: {body_text}");
                        assert!(headers.contains_key("retry-after"), "{status}: {body_text}");
                        assert_eq!(headers["x-should-retry"], "true");
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        report
    }
}

/// Running callers.
pub(crate) struct Load {
    stop: CancellationToken,
    accepted: Arc<AtomicUsize>,
    callers: JoinSet<LoadReport>,
}

impl Load {
    /// Waits until this many more orders are accepted.
    pub(crate) async fn more(&self, count: usize) {
        let target = self.accepted.load(Ordering::SeqCst) + count;
        eventually("orders are accepted", async || {
            (self.accepted.load(Ordering::SeqCst) >= target).then_some(())
        })
        .await;
    }

    /// Stops the callers after their current orders; returns what all of them received.
    pub(crate) async fn end(self) -> LoadReport {
        self.stop.cancel();
        let mut total = LoadReport::default();
        for report in self.callers.join_all().await {
            total.tasks.extend(report.tasks);
            for (status, count) in report.answers {
                *total.answers.entry(status).or_default() += count;
            }
        }
        total
    }
}
