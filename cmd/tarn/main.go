// Command tarn watches and mirrors the resources of a Kubernetes API, diagnoses why they
// cannot be watched, and serves an API of its own for experiments.
package main

import "github.com/tarnproject/tarn/internal/cli"

func main() { cli.Tarn() }
