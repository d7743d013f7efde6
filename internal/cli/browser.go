package cli

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"

	"github.com/tarnproject/tarn/internal/hostcheck"
)

// consoleAddress returns the URL of the console of a server that listens.
func consoleAddress(listen string, l net.Listener) string {
	return "http://" + hostcheck.Reachable(listen, l.Addr()) + "/debug/tarn/"
}

// openBrowser opens a URL in the user's browser, with the program that the platform has for it.
func openBrowser(url string) error {
	command := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if command == nil {
		command = []string{"xdg-open"}
	}
	cmd := exec.Command(command[0], append(command[1:], url)...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("no browser could be opened (%s); open the address yourself", lastOf(err))
	}
	go func() { _ = cmd.Wait() }() // it ends when the browser has the URL; its failure shows in the browser
	return nil
}
