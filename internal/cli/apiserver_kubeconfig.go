package cli

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

// kubeconfigEntry is the name of the embedded server in kubeconfigs. A file with no other
// entries was written by tarn and may be replaced.
const kubeconfigEntry = "tarn-apiserver"

// kubeconfigFile is a kubeconfig that was written.
type kubeconfigFile struct {
	path      string
	temporary bool
}

// remove deletes a temporary file.
func (f kubeconfigFile) remove() {
	if f.temporary {
		_ = os.Remove(f.path) // the system cleans up its directory
	}
}

// writeKubeconfig writes a kubeconfig with a context for each user to path, or to a temporary
// file if path is empty. It replaces a file that tarn did not write only if overwrite is set.
func writeKubeconfig(users map[string]*rest.Config, path string, overwrite bool) (kubeconfigFile, error) {
	cfg := users[kubeconfigEntry]
	file := clientcmdapi.NewConfig()
	file.Clusters[kubeconfigEntry] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	file.CurrentContext = kubeconfigEntry
	for name, user := range users {
		file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: user.BearerToken}
		file.Contexts[name] = &clientcmdapi.Context{Cluster: kubeconfigEntry, AuthInfo: name}
	}
	content, err := clientcmd.Write(*file)
	if err != nil {
		return kubeconfigFile{}, fmt.Errorf("encoding kubeconfig: %w", err)
	}
	if path == "" {
		return temporary(content)
	}
	if path, err = filepath.Abs(path); err != nil {
		return kubeconfigFile{}, fmt.Errorf("cannot write kubeconfig %s: %s", path, reason(err))
	}
	if !overwrite && !replaceable(path) {
		return kubeconfigFile{}, usagef("%s exists and was not written by tarn apiserver; choose another file, or add --overwrite to replace it", path)
	}
	if err := replaceFile(path, content); errors.Is(err, fs.ErrNotExist) {
		return kubeconfigFile{}, usagef("--kubeconfig-out: no such directory: %s", filepath.Dir(path))
	} else if err != nil {
		return kubeconfigFile{}, fmt.Errorf("cannot write kubeconfig %s: %s", path, reason(err))
	}
	return kubeconfigFile{path: path}, nil
}

func temporary(content []byte) (kubeconfigFile, error) {
	f, err := os.CreateTemp("", "tarn-apiserver-*.kubeconfig")
	if err != nil {
		return kubeconfigFile{}, fmt.Errorf("cannot create a temporary kubeconfig: %s; set --kubeconfig-out", reason(err))
	}
	file := kubeconfigFile{path: f.Name(), temporary: true}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		file.remove()
		return kubeconfigFile{}, fmt.Errorf("cannot write kubeconfig %s: %s", file.path, reason(err))
	}
	return file, nil
}

// replaceFile replaces a file atomically.
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
		_ = os.Remove(f.Name()) // the earlier error matters more
	}
	return err
}

// replaceable reports whether path does not exist or was written by tarn.
func replaceable(path string) bool {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	content, err := readFile(path, 1<<20) // files written by tarn are smaller
	if err != nil {
		return false
	}
	cfg, err := clientcmd.Load(content)
	if err != nil || len(cfg.Clusters) != 1 || cfg.Clusters[kubeconfigEntry] == nil {
		return false
	}
	for name := range cfg.AuthInfos {
		if c := cfg.Contexts[name]; c == nil || c.AuthInfo != name {
			return false
		}
	}
	return true
}
