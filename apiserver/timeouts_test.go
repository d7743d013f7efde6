package apiserver_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAWatchWithoutAReaderTimesOut(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := apiserver.Start(t, apiserver.Options{HTTP2: http2})
			for i := range 30 {
				fill(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Data: map[string]string{"x": strings.Repeat("x", 400_000+i)}})
			}
			resp := open(t, s, http.MethodGet, configMaps+"?watch=1&timeoutSeconds=60", "")
			defer resp.Body.Close()
			synctest.Wait()
			if n := s.Watches("configmaps"); n != 1 {
				t.Fatalf("%d watches", n)
			}
			<-time.After(90 * time.Second)
			synctest.Wait()
			if n := s.Watches("configmaps"); n != 0 {
				t.Errorf("HTTP/2 %v: after its timeout there are %d watches", http2, n)
			}
			// A response that is cut by the deadline does not end cleanly.
			if _, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Errorf("HTTP/2 %v: the watch ended cleanly", http2)
			}
		})
	}
}

func TestAConnectionIsReusableAfterAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		for range 3 {
			watching(t, s, pods+"?watch=1&timeoutSeconds=5&resourceVersion=13").expect(t, "end")
			<-time.After(time.Hour)
			if a := get(t, s, pods); a.code != http.StatusOK {
				t.Errorf("got %d", a.code)
			}
		}
	})
}

func TestAnIncompleteRequestTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		dial := s.MemoryConfig().Transport.(*http.Transport).DialContext
		for name, text := range map[string]string{
			"head": "GET /healthz HTTP/1.1\r\nHost: x\r\n",
			"body": "POST " + pods + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		} {
			conn, err := dial(t.Context(), "tcp", "x:80")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(began) > 5*time.Minute {
				t.Errorf("half a %s: %v after %v", name, err, time.Since(began))
			}
			conn.Close()
		}
	})
}
