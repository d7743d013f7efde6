package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/bench/crds"
	"github.com/tarnproject/tarn/bench/pods"
)

const (
	// pagedPrefix is that of an API server which honours a limit in every list, as one
	// without a watch cache does. Without it a list comes whole.
	pagedPrefix = "/paged"
	// preparePath has an answer encoded.
	preparePath = "/prepare"
	// expirePath ends all streaming lists with a 410, after which clients list again.
	expirePath = "/expire"
	// sentPath returns how many streaming lists have been sent to their end.
	sentPath = "/sent"
	// block is how much is written at a time.
	block = 64 << 10
)

// serve is the replay server: it prints its addresses to stdout and runs until stdin ends.
func serve(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := func() (err error) {
		defer recovered(&err)
		if len(args) != 1 {
			return errors.New("the replay server has one argument, a number of objects")
		}
		objects, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		debug.SetGCPercent(25) // it holds a lot and allocates little
		h := newReplayHandler(objects)
		srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
		defer srv.Close()
		addr, err := listen(srv)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(stdout).Encode(addr); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, stdin)
		return err
	}()
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// listen serves plain HTTP/1.1 and, on another port, HTTP/2 over TLS.
func listen(srv *http.Server) (address, error) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return address{}, err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return address{}, err
	}
	cert, ca, err := certificate()
	if err != nil {
		return address{}, err
	}
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	go func() { _ = srv.Serve(plain) }()
	go func() { _ = srv.ServeTLS(secure, "", "") }()
	return address{
		Plain: "http://" + plain.Addr().String(),
		TLS:   "https://" + secure.Addr().String(),
		CA:    ca,
	}, nil
}

// certificate returns a self-signed certificate for the loopback address.
func certificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "replay"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca, nil
}

// replayHandler answers lists and watches.
type replayHandler struct {
	encoders map[string]encoders // by resource

	sent atomic.Int64 // streaming lists

	mu      sync.Mutex // guards what follows
	name    asked
	answer  [][]byte      // the pages of a list, or the frames of a watch as one
	expired chan struct{} // closed when the streams that are open are to end
}

func newReplayHandler(objects int) *replayHandler {
	podOptions := pods.Options{Objects: objects}
	crdOptions := crds.Options{Objects: replay{Resource: releaseResource}.objects(objects)}
	return &replayHandler{
		encoders: map[string]encoders{
			podResource:     podEncoders{pods.Generate(podOptions), pods.LastVersion(podOptions)},
			releaseResource: releaseEncoders{crds.Generate(crdOptions), crds.LastVersion(crdOptions)},
		},
		expired: make(chan struct{}),
	}
}

// expiry returns what is closed when the streams that are open now are to end.
func (h *replayHandler) expiry() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.expired
}

func (h *replayHandler) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.expired)
	h.expired = make(chan struct{})
}

// encoded returns the answer to a, encoding it if it is not the one at hand.
func (h *replayHandler) encoded(a asked) (answer [][]byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.name == a {
		return h.answer, nil
	}
	defer recovered(&err)
	h.name, h.answer = asked{}, nil
	debug.FreeOSMemory()
	answer, err = encode(h.encoders[a.resource], a)
	if err == nil {
		h.name, h.answer = a, answer
	}
	return answer, err
}

// ServeHTTP answers the requests of the benchmarks as an API server does.
func (h *replayHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, paged := strings.CutPrefix(r.URL.Path, pagedPrefix)
	query := r.URL.Query()
	a := asked{encoding: jsonEncoding, way: byList}
	if strings.Contains(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
		a.encoding = protobufEncoding
	}
	watched := query.Get("watch") == "true" || query.Get("watch") == "1"
	switch {
	case watched && query.Get("sendInitialEvents") == "true":
		a.way = byStream
	case watched:
		a.way = byEvents
	case paged:
		a.way = byPages
	}
	switch path {
	case expirePath:
		h.expire()
		return
	case sentPath:
		fmt.Fprint(w, h.sent.Load())
		return
	case preparePath:
		a = asked{query.Get("resource"), query.Get("encoding"), way(query.Get("way"))}
	case "/api/v1/pods":
		a.resource = podResource
	case "/apis/delivery.example.com/v1/releases":
		a.resource, a.encoding = releaseResource, jsonEncoding
	default:
		http.NotFound(w, r)
		return
	}
	answer, err := h.encoded(a)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if path == preparePath {
		return
	}
	at := 0
	if token := query.Get("continue"); token != "" {
		if at, err = strconv.Atoi(token); err != nil || at < 0 || at >= len(answer) || !paged {
			http.Error(w, "no such page", http.StatusGone)
			return
		}
	}
	w.Header().Set("Content-Type", contentType(a))
	w.WriteHeader(http.StatusOK)
	expired := h.expiry()
	for rest := answer[at]; len(rest) > 0; {
		n := min(block, len(rest))
		if _, err := w.Write(rest[:n]); err != nil {
			return
		}
		rest = rest[n:]
	}
	if a.way != byStream {
		return
	}
	_ = http.NewResponseController(w).Flush()
	h.sent.Add(1)
	select {
	case <-r.Context().Done():
	case <-expired:
		_, _ = w.Write(answer[1])
	}
}

func contentType(a asked) string {
	switch {
	case a.encoding == jsonEncoding:
		return "application/json"
	case a.way == byStream || a.way == byEvents:
		return "application/vnd.kubernetes.protobuf;stream=watch"
	}
	return "application/vnd.kubernetes.protobuf"
}
