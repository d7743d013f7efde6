package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Revision returns etcd's newest revision, which is the newest resource version.
func (p *Plane) Revision(ctx context.Context) (int64, error) {
	var answer struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	// Any key works, even one that does not exist.
	if err := p.etcd(ctx, "kv/range", map[string]any{"key": []byte("/"), "count_only": true}, &answer); err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer.Header.Revision, 10, 64)
}

// Compact makes etcd discard its history except for the last revisions, and waits until it
// has. The API server's watch caches are unaffected: to see a 410, restart it or run it with
// --watch-cache=false.
func (p *Plane) Compact(ctx context.Context, keep int64) error {
	revision, err := p.Revision(ctx)
	if err != nil {
		return err
	}
	if revision -= keep; revision < 1 {
		return nil
	}
	request := map[string]any{"revision": strconv.FormatInt(revision, 10), "physical": true}
	return p.etcd(ctx, "kv/compaction", request, nil)
}

// Pair is a key of etcd and its value.
type Pair struct {
	Key   string
	Value []byte
}

// Put writes directly to etcd in the way of the API server: each pair has its own revision.
// The order is undefined. The API server keeps objects below
// "/registry/", without a resource version.
func (p *Plane) Put(ctx context.Context, pairs ...Pair) error {
	const parallel = 8
	queue, errs := make(chan Pair), make(chan error, parallel)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: parallel}}
	defer client.CloseIdleConnections()
	for range parallel {
		go func() {
			var err error
			for pair := range queue {
				if err == nil {
					err = p.call(ctx, client, "kv/put", map[string][]byte{"key": []byte(pair.Key), "value": pair.Value}, nil)
				}
			}
			errs <- err
		}()
	}
	for _, pair := range pairs {
		queue <- pair
	}
	close(queue)
	var err error
	for range parallel {
		err = errors.Join(err, <-errs)
	}
	return err
}

// etcd calls etcd through its JSON gateway, which avoids a dependency on its client.
func (p *Plane) etcd(ctx context.Context, method string, request, answer any) error {
	return p.call(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, method, request, answer)
}

func (p *Plane) call(ctx context.Context, client *http.Client, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.etcdURL+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("controlplane: etcd: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("controlplane: etcd: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("controlplane: etcd: %s: %s: %s", method, resp.Status, tail(string(text), 5))
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("controlplane: etcd: %s: %w", method, err)
	}
	return nil
}
