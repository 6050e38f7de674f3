//go:build e2e

package deploy_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// tokenSeconds is how long a service account's token is good for: longer than a test.
	tokenSeconds = 3600
)

// programs are the binaries under test; TestMain fills them in.
var programs harness.Programs

var kubernetesVersion = harness.OlderKubernetes()

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "deploy", &programs, kubernetesVersion)) }

// system is a local cluster with one variant of the manifests installed in it, whose
// processes run on this machine.
type system struct {
	*testing.T
	dir     string
	cluster *harness.Cluster
	client  kubernetes.Interface
	// shipped are the objects of the variant.
	shipped []runtime.Object
	stores  *stores
	// berth is the program of the services.
	berth string
}

// runtimeConfig and featureGates make the API server serve everything that a role has a right to: DeviceTaintRules and
// PodGroups are off by default. Older API servers do not know them.
const (
	runtimeConfig = "resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true"
	featureGates  = "GenericWorkload=true"
)

// newSystem starts a cluster with the nodes of a file (relative to the repository, empty for
// none).
func newSystem(t *testing.T, nodes string) *system {
	t.Helper()
	return newSystemIn(t, kit.Dir(t, "deploy"), nodes)
}

// newSystemIn starts it in a folder.
func newSystemIn(t *testing.T, dir, nodes string) *system {
	t.Helper()
	s := &system{T: t, dir: dir, berth: programs.Berth}
	if nodes != "" {
		nodes = filepath.Join(programs.Root, filepath.FromSlash(nodes))
	}
	cfg := harness.ClusterConfig{Dir: filepath.Join(dir, "cluster"), Nodes: nodes}
	if *kubernetesVersion == "" {
		cfg.RuntimeConfig, cfg.FeatureGates = runtimeConfig, featureGates
	}
	var err error
	s.cluster, err = programs.StartCluster(t.Context(), cfg)
	s.must(err)
	s.client = s.cluster.Client
	kit.AtEnd(s.T, s.cluster.Stop)
	return s
}

// must ends the test on an error.
func (s *system) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *system) eventually(within time.Duration, what string, check func(context.Context) (string, error)) {
	s.Helper()
	s.must(harness.Eventually(s.Context(), within, what, check))
}

// install makes what the services need of a variant in the cluster: namespace, service
// accounts, roles. Their pods are not made: the processes run here.
func (s *system) install(variant string) {
	s.Helper()
	s.installObjects(s.objects(variant))
}

// installObjects does so with the objects of a variant.
func (s *system) installObjects(shipped []runtime.Object) {
	s.Helper()
	s.shipped = shipped
	for _, o := range s.shipped {
		switch o.(type) {
		case *corev1.Namespace, *corev1.ServiceAccount, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *corev1.ConfigMap:
			s.create(o)
		}
	}
	s.writeConfig(s.shipped)
}

// writeConfig puts the services' configuration where they read it, as a kubelet does with the ConfigMap.
func (s *system) writeConfig(objects []runtime.Object) {
	s.Helper()
	s.must(os.MkdirAll(s.configDir(), 0o755))
	for name, text := range pick[*corev1.ConfigMap](s, objects, "berth-config").Data {
		s.must(os.WriteFile(filepath.Join(s.configDir(), name), []byte(text), 0o644))
	}
}

func (s *system) configDir() string { return filepath.Join(s.dir, "config") }
func (s *system) certsDir() string  { return filepath.Join(s.dir, "certs") }

func (s *system) create(o runtime.Object) {
	s.Helper()
	var err error
	ctx, c := s.Context(), s.client
	options := metav1.CreateOptions{}
	switch o := o.(type) {
	case *corev1.Namespace:
		_, err = c.CoreV1().Namespaces().Create(ctx, o, options)
	case *corev1.Node:
		_, err = c.CoreV1().Nodes().Create(ctx, o, options)
	case *corev1.ServiceAccount:
		_, err = c.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, options)
	case *corev1.ConfigMap:
		_, err = c.CoreV1().ConfigMaps(o.Namespace).Create(ctx, o, options)
	case *rbacv1.ClusterRole:
		_, err = c.RbacV1().ClusterRoles().Create(ctx, o, options)
	case *rbacv1.ClusterRoleBinding:
		_, err = c.RbacV1().ClusterRoleBindings().Create(ctx, o, options)
	case *admissionv1.ValidatingAdmissionPolicy:
		_, err = c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, o, options)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		_, err = c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, o, options)
	default:
		s.Fatalf("create: %T", o)
	}
	s.must(err)
}

// kubeconfig gives access as exactly one service account: the API server's address, and a token that it made for the
// account.
func (s *system) kubeconfig(account string) string {
	s.Helper()
	seconds := int64(tokenSeconds)
	request, err := s.client.CoreV1().ServiceAccounts(namespace).CreateToken(s.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}},
		metav1.CreateOptions{})
	s.must(err)
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{
		Server: s.cluster.Rest.Host, CertificateAuthorityData: s.cluster.Rest.CAData,
		CertificateAuthority: s.cluster.Rest.CAFile,
	}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: account}
	config.CurrentContext = "local"
	path := filepath.Join(s.dir, account+".kubeconfig")
	s.must(clientcmd.WriteToFile(*config, path))
	return path
}

// certificates makes the secrets' content, and replaces existing content.
func (s *system) certificates(flags ...string) {
	s.Helper()
	args := append([]string{"certs", "--out", s.certsDir(), "--host", "127.0.0.1,localhost"}, flags...)
	result, err := programs.Command(s.Context(), args...)
	s.must(err)
	if result.Code != 0 {
		s.Fatal(result.Stderr)
	}
}
