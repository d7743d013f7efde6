// Package e2e holds the tests of Tarn against a real control plane. `make e2e` builds that
// and runs them; package controlplane is what they run it with.
package e2e
