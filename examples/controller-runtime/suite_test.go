package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarnproject/tarn/apiserver"
)

// The suite that kubebuilder scaffolds, with the embedded server in place of envtest: there is
// nothing to download and to stop, and the rest is the same.

var (
	server    *apiserver.Server
	k8sClient client.Client
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controller Suite")
}

var _ = BeforeSuite(func() {
	server = apiserver.Start(GinkgoT(), apiserver.Options{Address: "127.0.0.1:0"})
	cfg := server.Config()

	var err error
	k8sClient, err = client.New(cfg, client.Options{})
	Expect(err).NotTo(HaveOccurred())

	mgr, err := newManager(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: new(true)}, // other tests start it in this process, too
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
})

// The server outlives the specs, so it does not log the requests of one that fails.
var _ = AfterEach(func() {
	AddReportEntry("requests", server.RequestLog(), ReportEntryVisibilityFailureOrVerbose)
})

var _ = Describe("the policy of a namespace", func() {
	It("is created with the namespace", func(ctx SpecContext) {
		Expect(k8sClient.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})).To(Succeed())
		policy := &networkingv1.NetworkPolicy{}
		Eventually(func() error {
			return k8sClient.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "deny-ingress"}, policy)
		}).WithTimeout(time.Minute).Should(Succeed())
		Expect(policy.OwnerReferences).To(HaveLen(1))
	})
})
