package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"

	"k8s.io/client-go/rest"
)

// The replay server is a separate process that sends responses encoded in advance. It is this
// program with another first argument, and exits when its standard input ends.

// serveArg is the first argument of the replay server.
const serveArg = "serve"

// replay describes a job's request to the replay server and how it handles the response.
type replay struct {
	Address address `json:"address"`
	// Resource is pods, metadata or releases.
	Resource string `json:"resource"`
	// Encoding is protobuf or json.
	Encoding string `json:"encoding"`
	// Way is how the objects are sent; see the constants.
	Way way `json:"way"`
	// Typed decodes custom resources into a Go type instead of unstructured objects.
	Typed bool `json:"typed,omitempty"`
	// TLS asks for HTTP/2 over TLS instead of plain HTTP/1.1.
	TLS bool `json:"tls,omitempty"`
	// Drop drops managed fields: client-go after decoding, Tarn before.
	Drop bool `json:"drop,omitempty"`
	// Held makes Tarn's receiver claim to hold every object, so that none is decoded.
	// client-go ignores it.
	Held bool `json:"held,omitempty"`
}

// way is how the server sends objects.
type way string

const (
	byList   way = "list"   // one LIST
	byPages  way = "pages"  // LISTs of 500 objects each
	byStream way = "stream" // a streaming list
	byEvents way = "events" // a watch with changes
	byChurn  way = "churn"  // one LIST, and a watch with changes on request
)

const (
	podResource      = "pods"
	metadataResource = "metadata" // of pods
	releaseResource  = "releases"

	protobufEncoding = "protobuf"
	jsonEncoding     = "json"
)

// pageSize is client-go's default.
const pageSize = 500

// objects returns the number of objects or events.
func (r replay) objects(all int) int {
	if r.Resource == releaseResource {
		return max(1, all/2)
	}
	return all
}

// config returns the client configuration for the server.
func (r replay) config() *rest.Config {
	cfg := &rest.Config{Host: r.Address.Plain, QPS: -1}
	if r.TLS {
		cfg.Host = r.Address.TLS
		cfg.CAData = r.Address.CA
	}
	switch r.Way {
	case byPages:
		cfg.Host += pagedPrefix
	case byChurn:
		cfg.Host += churnPrefix
	}
	return cfg
}

// address has the URLs of a replay server.
type address struct {
	Plain string `json:"plain"`
	TLS   string `json:"tls"`
	CA    []byte `json:"ca"`
}

// server is a replay server that the lab has started.
type server struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	stderr  *bytes.Buffer
	address address
	warm    string // the response encoded last
}

// replayServer returns the lab's replay server, which the first call starts.
func (l *lab) replayServer() *server {
	if l.server != nil {
		return l.server
	}
	l.progress("replay server: planning %d pods", l.objects)
	self, err := os.Executable()
	check(err)
	s := &server{cmd: exec.Command(self, serveArg, strconv.Itoa(l.objects)), stderr: new(bytes.Buffer)}
	s.cmd.Stderr = s.stderr
	s.stdin, err = s.cmd.StdinPipe()
	check(err)
	out, err := s.cmd.StdoutPipe()
	check(err)
	check(s.cmd.Start())
	l.server = s
	if err := json.NewDecoder(out).Decode(&s.address); err != nil {
		fail("replay server: %v: %s", err, bytes.TrimSpace(s.stderr.Bytes()))
	}
	return s
}

// close stops the lab's processes.
func (l *lab) close() {
	if l.server != nil {
		_ = l.server.stdin.Close()
		_ = l.server.cmd.Wait()
		l.server = nil
	}
}

// prepare makes the server encode a response before the measurement. The server keeps one at a
// time.
func (l *lab) prepare(r replay) replay {
	s := l.replayServer()
	r.Address = s.address
	a := asked{r.Resource, r.Encoding, r.Way}
	if a.way == byChurn {
		a.way = byList
	}
	if s.warm == a.String() {
		return r
	}
	l.progress("replay server: encoding %s", a)
	resp, err := http.Get(s.address.Plain + preparePath + "?" + url.Values{
		"resource": {r.Resource}, "encoding": {r.Encoding}, "way": {string(a.way)},
	}.Encode())
	check(err)
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	check(err)
	if resp.StatusCode != http.StatusOK {
		fail("replay server: %s: %s", resp.Status, bytes.TrimSpace(body))
	}
	s.warm = a.String()
	return r
}

// asked identifies a response of the server.
type asked struct {
	resource, encoding string
	way                way
}

func (a asked) String() string { return fmt.Sprintf("%s, %s, %s", a.resource, a.encoding, a.way) }
