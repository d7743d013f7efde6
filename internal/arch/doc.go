// Package arch holds the rules of the source tree as code: which folder may import
// which, what must be documented, how files are named and how long they get. Its
// test runs them over the whole repository, the modules in bench and e2e included,
// so that the picture in the root package's documentation stays true.
//
// Check reads a tree and returns a Violation for each broken rule. It parses
// and does not type-check, so it needs neither a build nor the network, and its
// own tests run it over small trees in testdata, one for each rule.
package arch
