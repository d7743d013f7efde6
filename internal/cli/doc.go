// Package cli implements the commands tarn and tarn-apiserver, one file per subcommand. They are
// two programs because the API server's schemas and stand-ins for controllers take as long to
// build as everything else: only tarn-apiserver links them, and tarn apiserver runs it.
package cli
