package controlplane

import "time"

// Options configure a [Plane]. The zero value works.
type Options struct {
	// Binaries is the folder with etcd and kube-apiserver. Defaults to that of [Binaries],
	// which builds them where they are missing.
	Binaries string
	// Dir is the folder for data, logs and certificates. It is not removed, which helps
	// after a failure. Defaults to a temporary one that Close removes.
	Dir string
	// APIServerArgs are further arguments of kube-apiserver, such as "--watch-cache=false";
	// they come last and override others. Defaults to none.
	APIServerArgs []string
	// EtcdArgs are further arguments of etcd. Defaults to none.
	EtcdArgs []string
	// StartTimeout is how long one part may take until it is ready. Defaults to 2 minutes.
	StartTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.StartTimeout == 0 {
		o.StartTimeout = 2 * time.Minute
	}
	return o
}
