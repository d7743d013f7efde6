package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Plane is a control plane of one etcd and one kube-apiserver on loopback. It is made by
// [New], which starts it, and ended by [Plane.Close].
//
// All methods may be called from any goroutine. Callers that stop parts must coordinate with
// the others.
type Plane struct {
	// Etcd and APIServer are the processes.
	Etcd, APIServer *Part

	opts      Options
	dir       string
	temporary bool
	ca        *authority
	etcdURL   string
	apiURL    string
	dataDir   string
}

// TB is the part of testing.TB that [Start] needs.
type TB interface {
	// Helper marks the caller as a test helper.
	Helper()
	// Context ends just before the test's cleanup.
	Context() context.Context
	// Cleanup is called when the test has ended.
	Cleanup(func())
	// Failed says whether the test has failed.
	Failed() bool
	// Logf writes to the test's log.
	Logf(format string, args ...any)
	// Errorf fails the test.
	Errorf(format string, args ...any)
	// Fatalf fails the test and ends it.
	Fatalf(format string, args ...any)
}

// Start starts a control plane that ends with the test. If the test has failed, the end of
// both logs is in its output.
func Start(t TB, opts Options) *Plane {
	t.Helper()
	p, err := New(t.Context(), opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		p.logFailure(t)
		if err := p.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return p
}

// logFailure shows the end of both logs if the test has failed.
func (p *Plane) logFailure(t TB) {
	if !t.Failed() {
		return
	}
	for _, part := range []*Part{p.Etcd, p.APIServer} {
		t.Logf("the log of %s ends:\n%s", part.Name(), part.Log(20))
	}
}

// New starts a control plane and returns when it is ready.
func New(ctx context.Context, opts Options) (*Plane, error) {
	opts = opts.withDefaults()
	if opts.Binaries == "" {
		dir, err := Binaries(ctx)
		if err != nil {
			return nil, err
		}
		opts.Binaries = dir
	}
	// Another process may take a port between its choice and its use.
	const tries = 3
	for try := 1; ; try++ {
		p, err := start(ctx, opts)
		if err == nil {
			return p, nil
		}
		if try == tries || !strings.Contains(err.Error(), portTaken) {
			return nil, err
		}
	}
}

func start(ctx context.Context, opts Options) (_ *Plane, err error) {
	p := &Plane{opts: opts, dir: opts.Dir}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "tarn-e2e-"); err != nil {
			return nil, err
		}
		p.temporary = true
	}
	defer func() {
		if err != nil {
			_ = p.Close()
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	if p.ca, err = newAuthority(); err != nil {
		return nil, err
	}
	p.dataDir = filepath.Join(p.dir, "etcd")
	p.etcdURL = "http://127.0.0.1:" + ports[0]
	p.apiURL = "https://127.0.0.1:" + ports[2]
	p.Etcd = p.part("etcd", p.etcdURL+"/readyz", nil, append(etcdArgs(p.dataDir, p.etcdURL, "http://127.0.0.1:"+ports[1]), opts.EtcdArgs...))
	args, err := p.apiServerArgs(ports[2])
	if err != nil {
		return nil, err
	}
	config, err := p.adminTLS()
	if err != nil {
		return nil, err
	}
	p.APIServer = p.part("kube-apiserver", p.apiURL+"/readyz?verbose", config, append(args, opts.APIServerArgs...))
	for _, part := range []*Part{p.Etcd, p.APIServer} {
		if err := part.Start(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Plane) part(name, ready string, config *tls.Config, args []string) *Part {
	return &Part{
		name: name, path: filepath.Join(p.opts.Binaries, name), args: args, logPath: filepath.Join(p.dir, name+".log"),
		ready: ready, tls: config, timeout: p.opts.StartTimeout, state: Stopped,
	}
}

func etcdArgs(dataDir, client, peer string) []string {
	return []string{
		"--name=e2e", "--data-dir=" + dataDir,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=e2e=" + peer,
		"--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=" + strconv.Itoa(8<<30),
		"--heartbeat-interval=50", "--election-timeout=500", // there is no other member to wait for
	}
}

// apiServerArgs writes certificates and keys and returns the arguments that name them.
func (p *Plane) apiServerArgs(port string) ([]string, error) {
	cert, key, err := p.ca.server()
	if err != nil {
		return nil, err
	}
	account, accountPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	public, err := publicKey(account)
	if err != nil {
		return nil, err
	}
	pki := filepath.Join(p.dir, "pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(pki, name) }
	for name, content := range map[string][]byte{
		"ca.crt": p.ca.pem, "server.crt": cert, "server.key": key, "accounts.key": accountPEM, "accounts.pub": public,
	} {
		if err := os.WriteFile(file(name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return []string{
		"--etcd-servers=" + p.etcdURL, "--etcd-compaction-interval=0",
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + pki,
		"--tls-cert-file=" + file("server.crt"), "--tls-private-key-file=" + file("server.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("accounts.pub"), "--service-account-signing-key-file=" + file("accounts.key"),
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount", // there is no controller that creates the accounts
		"--profiling=false",
	}, nil
}

// adminTLS is what the readiness probe needs.
func (p *Plane) adminTLS() (*tls.Config, error) {
	cert, key, err := p.ClientCertificate("probe", 24*time.Hour, "system:masters")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.ca.cert)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// Config returns what an administrator's client needs. Client-side rate limits are off.
func (p *Plane) Config() *rest.Config {
	config, err := p.ConfigFor("admin", "system:masters")
	if err != nil {
		panic(fmt.Sprintf("controlplane: %v", err)) // only if the system has no randomness
	}
	return config
}

// ConfigFor returns what the client of a user needs, authenticated by a certificate.
// RBAC decides what the user may do.
func (p *Plane) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := p.ClientCertificate(user, 24*time.Hour, groups...)
	if err != nil {
		return nil, err
	}
	config := p.anonymous()
	config.CertData, config.KeyData = cert, key
	return config, nil
}

// ClientCertificate returns a certificate for a user and the key to it, both as PEM, for
// tests in which they end or are replaced.
func (p *Plane) ClientCertificate(user string, valid time.Duration, groups ...string) (cert, key []byte, err error) {
	return p.ca.client(user, groups, valid)
}

// anonymous returns what a client without a name needs.
func (p *Plane) anonymous() *rest.Config {
	return &rest.Config{Host: p.apiURL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: p.ca.pem}}
}

// Address returns the host and port of the API server, as a [Proxy] wants it.
func (p *Plane) Address() string { return strings.TrimPrefix(p.apiURL, "https://") }

// Close kills both processes and removes what they left. Closing again does nothing.
func (p *Plane) Close() error {
	var errs []error
	for _, part := range []*Part{p.APIServer, p.Etcd} {
		if part != nil {
			errs = append(errs, part.Kill())
		}
	}
	if p.temporary {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// freePorts returns unused ports on loopback.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are chosen, or they could be the same
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
