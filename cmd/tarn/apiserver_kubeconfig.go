package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// served is what the embedded server is called in kubeconfigs. A file that has nothing
// else may be replaced: tarn wrote it.
const served = "tarn-apiserver"

// kubeconfigFile is a file that was written.
type kubeconfigFile struct {
	path      string
	temporary bool
}

// remove takes a temporary file away.
func (f kubeconfigFile) remove() {
	if f.temporary {
		_ = os.Remove(f.path) // it is in a folder that is cleaned up anyway
	}
}

// writeKubeconfig writes how to reach a server to a file, or to a temporary one. Somebody
// else's file is replaced only if told so.
func writeKubeconfig(cfg *rest.Config, path string, overwrite bool) (kubeconfigFile, error) {
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{served: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{served: {}},
		Contexts:       map[string]*clientcmdapi.Context{served: {Cluster: served, AuthInfo: served}},
		CurrentContext: served,
	})
	if err != nil {
		return kubeconfigFile{}, fmt.Errorf("making a kubeconfig: %w", err)
	}
	if path == "" {
		return temporary(content)
	}
	if path, err = filepath.Abs(path); err != nil {
		return kubeconfigFile{}, fmt.Errorf("the kubeconfig cannot be written to %s: %s", path, reason(err))
	}
	if !overwrite && !replaceable(path) {
		return kubeconfigFile{}, usagef("%s exists and was not written by tarn apiserver; choose another file, or add --overwrite to lose it", path)
	}
	if err := replaceFile(path, content); errors.Is(err, fs.ErrNotExist) {
		return kubeconfigFile{}, usagef("--kubeconfig-out: there is no folder %s", filepath.Dir(path))
	} else if err != nil {
		return kubeconfigFile{}, fmt.Errorf("the kubeconfig cannot be written to %s: %s", path, reason(err))
	}
	return kubeconfigFile{path: path}, nil
}

func temporary(content []byte) (kubeconfigFile, error) {
	f, err := os.CreateTemp("", "tarn-apiserver-*.kubeconfig")
	if err != nil {
		return kubeconfigFile{}, fmt.Errorf("no temporary kubeconfig can be made: %s; name a file with --kubeconfig-out", reason(err))
	}
	file := kubeconfigFile{path: f.Name(), temporary: true}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		file.remove()
		return kubeconfigFile{}, fmt.Errorf("the kubeconfig cannot be written to %s: %s", file.path, reason(err))
	}
	return file, nil
}

// replaceFile writes a file whole or not at all: a reader never sees half of it.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what went wrong before is worth more
	}
	return err
}

// replaceable reports whether there is no such file, or one that is ours.
func replaceable(path string) bool {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	content, err := readFile(path, 1<<20) // of ours none is as large
	if err != nil {
		return false
	}
	cfg, err := clientcmd.Load(content)
	return err == nil && len(cfg.Clusters) == 1 && len(cfg.Contexts) <= 1 && len(cfg.AuthInfos) <= 1 && cfg.Clusters[served] != nil
}
