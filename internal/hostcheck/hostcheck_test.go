package hostcheck_test

import (
	"slices"
	"testing"

	"github.com/tarnproject/tarn/internal/hostcheck"
)

func TestOnlyNamesOfThisMachineAreTrusted(t *testing.T) {
	hosts := hostcheck.Listening("box.example:80", []string{"Mirror.Example", "fd00::1", ""})
	for header, want := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "localhost.": true, "127.0.0.1": true, "127.8.0.1:1": true, "[::1]:8484": true, "[::1]": true, "::1": true,
		"mirror.example": true, "mirror.example.:1": true, "[fd00::1]:443": true, "box.example:8080": true,
		"": false, ":80": false, "evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"10.0.0.1": false, "0.0.0.0": false, "[::]:80": false, "a.mirror.example": false, "127.0.0.1@evil.example": false,
	} {
		if got := hostcheck.Trusted(header, hosts); got != want {
			t.Errorf("Host %q: %v, want %v", header, got, want)
		}
	}
}

func TestAListenerOnAllAddressesAddsNoHost(t *testing.T) {
	allowed := []string{"a.example"}
	for address, want := range map[string][]string{
		":80": allowed, "0.0.0.0:80": allowed, "[::]:80": allowed, "nonsense": allowed,
		"b.example:80": {"a.example", "b.example"}, "10.0.0.1:0": {"a.example", "10.0.0.1"},
	} {
		if got := hostcheck.Listening(address, allowed); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
