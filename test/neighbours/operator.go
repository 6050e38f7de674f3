package neighbours

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/berth-scheduler/berth/pkg/ca"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// operatorCertLife is longer than the 90 days before the end at which operators replace a certificate.
	operatorCertLife = 365 * 24 * time.Hour
	loopback         = "127.0.0.1"
)

// operator is a controller with admission webhooks that runs as a process beside the cluster and not in a pod of it:
// the API server reaches its webhooks by an address, and the scenario makes its certificates. It has the
// administrator's rights.
type operator struct {
	// name is that of its folder and log, program is the built program.
	name, program string
	// pin is the folder of the module that pins the operator's module, relative to the repository.
	pin, module string
	namespace   string
	// managed is empty if the operator takes its certificates from a folder as they are.
	managed managed
	// kustomization is the folder of its installation, relative to its module.
	kustomization string
	// config is the operator's configuration, with the addresses and the folder of certificates of a stage.
	config func(operatorStage) string
	// env is the environment, each name=value; args are more of the command line.
	env, args []string
}

// managed is how an operator looks after its own certificates: it replaces those that do not have these names.
type managed struct {
	// service and secret are where its manifests have the webhooks and the certificates.
	service, secret string
	// authority is the name of its certificate authority.
	authority string
}

// operatorStage is where one operator runs.
type operatorStage struct {
	// Dir has the certificates, tls.crt and tls.key.
	Dir string
	// Health and Webhook are addresses on the loopback interface, WebhookPort is the latter's port.
	Health, Webhook string
	WebhookPort     string

	authority []byte
}

// start installs the operator and returns when its webhooks answer.
func (o operator) start(ctx context.Context, s *Scene) error {
	module, err := s.ModuleDir(ctx, o.pin, o.module)
	if err != nil {
		return err
	}
	stage, err := o.stage(ctx, s)
	if err != nil {
		return err
	}
	if err := o.install(ctx, s, module, stage); err != nil {
		return err
	}
	config, err := s.File(o.name+".yaml", o.config(stage))
	if err != nil {
		return err
	}
	env := append([]string{"KUBECONFIG=" + s.Cluster.Kubeconfig}, o.env...)
	p, err := s.Start(o.name, o.program, env, append([]string{"--config", config}, o.args...)...)
	if err != nil {
		return err
	}
	return answers(ctx, s, p, "http://"+stage.Health+"/readyz")
}

// stage makes the namespace, the addresses and the certificates.
func (o operator) stage(ctx context.Context, s *Scene) (operatorStage, error) {
	stage := operatorStage{Dir: filepath.Join(s.Dir, o.name)}
	if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(o.namespace)); err != nil {
		return stage, err
	}
	var err error
	for _, address := range []*string{&stage.Health, &stage.Webhook} {
		if *address, err = harness.FreeAddress(); err != nil {
			return stage, err
		}
	}
	stage.WebhookPort = stage.Webhook[len(loopback)+1:]
	authority, hosts := o.name, []string{loopback}
	if o.managed != (managed{}) {
		authority, hosts = o.managed.authority, []string{o.managed.service + "." + o.namespace + ".svc", loopback}
	}
	files, err := certificates(stage.Dir, authority, hosts...)
	stage.authority = files[ca.CertFile]
	if err != nil || o.managed == (managed{}) {
		return stage, err
	}
	_, err = s.Client.CoreV1().Secrets(o.namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: o.managed.secret}, Data: files,
	}, metav1.CreateOptions{})
	return stage, err
}

// certificates makes an authority and a server's certificate for hosts as files of a folder, and returns the files.
// The authority's name is also among the names for which its certificate is valid: operators verify it so.
func certificates(dir, name string, hosts ...string) (map[string][]byte, error) {
	if err := makeAuthority(dir, name); err != nil {
		return nil, err
	}
	now := time.Now()
	authority, err := ca.Open(dir, name, now)
	if err != nil {
		return nil, err
	}
	certificate, key, err := authority.Issue(ca.Subject{Name: hosts[0], Hosts: hosts}, now, operatorCertLife)
	if err != nil {
		return nil, err
	}
	err = errors.Join(ca.WriteFile(filepath.Join(dir, "tls.crt"), ca.Encode(certificate)),
		ca.WriteFile(filepath.Join(dir, "tls.key"), key))
	files := map[string][]byte{}
	for _, name := range []string{ca.CertFile, ca.KeyFile, "tls.crt", "tls.key"} {
		text, readErr := os.ReadFile(filepath.Join(dir, name))
		files[name], err = text, errors.Join(err, readErr)
	}
	return files, err
}

// makeAuthority writes a certificate authority where ca.Open finds it.
func makeAuthority(dir, name string) error {
	text, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return fmt.Errorf("a key of type %T cannot sign", key)
	}
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, signer)
	if err != nil {
		return err
	}
	return errors.Join(ca.WriteFile(filepath.Join(dir, ca.CertFile), ca.Encode(made)),
		ca.WriteFile(filepath.Join(dir, ca.KeyFile), text))
}

// installed are the kinds of an installation that are applied: its process, its rights and its own metrics are not.
var installed = []string{
	"Namespace", "CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

// install applies the operator's installation, but that its webhooks have an address and not a service.
func (o operator) install(ctx context.Context, s *Scene, module string, stage operatorStage) error {
	a, err := s.Applier()
	if err != nil {
		return err
	}
	kubectl := filepath.Join(filepath.Dir(s.Programs.Berth), "kubectl")
	cmd := exec.CommandContext(ctx, kubectl, "kustomize", filepath.Join(module, filepath.FromSlash(o.kustomization)))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("kustomize %s: %w", o.kustomization, err)
	}
	decoder, applied := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), yamlBuffer), 0
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("kustomize %s: %w", o.kustomization, err)
		}
		if !slices.Contains(installed, object.GetKind()) {
			continue
		}
		stage.reach(object.Object)
		if err := a.Object(ctx, object); err != nil {
			return err
		}
		applied++
	}
	if applied < len(installed) {
		return fmt.Errorf("kustomize %s: %d objects, want at least one of each of %v", o.kustomization, applied, installed)
	}
	return nil
}

// reach replaces the service in every clientConfig by the address.
func (stage operatorStage) reach(node any) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			stage.reach(item)
		}
	case map[string]any:
		for key, value := range n {
			if client, ok := value.(map[string]any); ok && key == "clientConfig" {
				path, _, _ := unstructured.NestedString(client, "service", "path")
				n[key] = map[string]any{
					"url": "https://" + stage.Webhook + path, "caBundle": base64.StdEncoding.EncodeToString(stage.authority),
				}
				continue
			}
			stage.reach(value)
		}
	}
}

// admitted applies objects as soon as the operator's webhooks answer, which they do a moment after it is ready.
func admitted(ctx context.Context, s *Scene, a *Applier, text string) error {
	return s.Eventually(ctx, worksWithin, "the webhooks admit objects", func(ctx context.Context) (string, error) {
		err := a.Text(ctx, text)
		if apierrors.IsInternalError(err) { // a webhook could not be called
			return err.Error(), nil
		}
		return "", err
	})
}
