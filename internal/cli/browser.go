package cli

import (
	"fmt"
	"net"
	"net/url"
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

// remoteHint returns lines about how other machines can reach the server, if that is
// allowed.
func remoteHint(base string, remote bool, hosts []string) (text string) {
	u, err := url.Parse(base)
	switch {
	case err != nil || !remote || !hostcheck.Loopback(u.Hostname()):
		return ""
	case len(hosts) == 0:
		return "Requests from other machines are rejected unless --allow-host lists the host name in their URL.\n"
	}
	for _, name := range hosts {
		text += fmt.Sprintf("Other machines can use %s://%s if that name resolves to this machine.\n", u.Scheme, net.JoinHostPort(name, u.Port()))
	}
	return text
}
