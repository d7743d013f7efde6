package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
)

func TestItPrintsPodsAndStopsWithCtrlC(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", Seed: 1})
	if _, err := server.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: test,
clusters: [{name: test, cluster: {server: "http://%s"}}], contexts: [{name: test, context: {cluster: test}}]}`, server.Addr())
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	printed, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = out
	done := make(chan struct{})
	go func() {
		defer close(done)
		main()
	}()
	line, err := bufio.NewReader(printed).ReadString('\n')
	if got := strings.Join(strings.Fields(line), " "); got != "Added default/web Running" || err != nil {
		t.Errorf("printed %q, %v", got, err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-done
	os.Stdout = stdout
}
