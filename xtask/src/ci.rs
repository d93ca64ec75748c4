//! ci
use crate::Verdict;
use anyhow::Result;
#[derive(clap::Args)]
pub struct Args {}
pub fn run(_: &Args) -> Result<Verdict> {
    anyhow::bail!("x")
}
