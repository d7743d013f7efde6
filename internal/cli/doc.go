// Package cli implements the commands tarn and tarn-apiserver. Each subcommand begins in the file of its name. They are
// two programs because the API server's schemas and stand-ins for controllers take as long to
// build as everything else: only tarn-apiserver links them, and tarn apiserver runs it.
package cli
