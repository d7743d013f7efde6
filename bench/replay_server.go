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
	// pagedPrefix is the URL prefix under which lists honour a limit, as without a
	// watch cache. Without it a list is sent whole.
	pagedPrefix = "/paged"
	// preparePath encodes a response.
	preparePath = "/prepare"
	// expirePath ends all streaming lists with a 410, after which clients list again.
	expirePath = "/expire"
	// changePath sends a change of every pod on an open streaming list.
	changePath = "/change"
	// sentPath returns the number of completed streaming lists.
	sentPath = "/sent"
	// block is the size of a write.
	block = 64 << 10
)

// serve is the replay server: it prints its addresses on stdout and runs until stdin ends.
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
		debug.SetGCPercent(25) // a large heap with few allocations
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

	sent    atomic.Int64 // streaming lists
	changes chan []byte  // frames for an open streaming list of pods in protobuf

	mu      sync.Mutex // guards what follows
	name    asked
	answer  [][]byte      // the pages of a list, or all frames of a watch
	expired chan struct{} // closed to end the open streams
}

func newReplayHandler(objects int) *replayHandler {
	podOptions := pods.Options{Objects: objects}
	crdOptions := crds.Options{Objects: replay{Resource: releaseResource}.objects(objects)}
	return &replayHandler{
		encoders: map[string]encoders{
			podResource:     podEncoders{pods.Generate(podOptions), pods.LastVersion(podOptions)},
			releaseResource: releaseEncoders{crds.Generate(crdOptions), crds.LastVersion(crdOptions)},
		},
		changes: make(chan []byte),
		expired: make(chan struct{}),
	}
}

// expiry returns the channel that is closed to end the open streams.
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

// encoded returns the response to a, encoding it unless it is the current one.
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

// ServeHTTP answers the API requests that the benchmarks make.
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
	case changePath:
		frames, err := encode(h.encoders[podResource], asked{podResource, protobufEncoding, byEvents})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		select {
		case h.changes <- frames[0]:
		case <-r.Context().Done():
		}
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
	if !send(w, answer[at]) || a.way != byStream {
		return
	}
	_ = http.NewResponseController(w).Flush()
	h.sent.Add(1)
	for {
		select {
		case <-r.Context().Done():
			return
		case <-expired:
			_, _ = w.Write(answer[1])
			return
		case frames := <-h.changes:
			if !send(w, frames) {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// send writes in blocks and reports whether the client has received all of it.
func send(w io.Writer, rest []byte) bool {
	for len(rest) > 0 {
		n := min(block, len(rest))
		if _, err := w.Write(rest[:n]); err != nil {
			return false
		}
		rest = rest[n:]
	}
	return true
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
