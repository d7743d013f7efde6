package main

import "github.com/spf13/pflag"

// clusterFlags say which cluster, with the names that kubectl's users know.
type clusterFlags struct {
	kubeconfig string
	context    string
}

// add registers the flags that choose a cluster.
func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig file to use (default $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "the context of the kubeconfig to use")
}
