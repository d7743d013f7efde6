// Package certificate makes the TLS certificate of a server that has none.
package certificate
