package render_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCertManager: with cert-manager every secret that a pod mounts comes from a Certificate, peers' ones from an
// authority of their own, and etcd and NATS know the names in them.
func TestCertManager(t *testing.T) {
	for _, variant := range []string{"base", "ha", "second-scheduler"} {
		objects := chartObjects(t, variant, set("tls.certManager.enabled", true))
		issuers := issuersOf(objects)
		for _, o := range objects {
			checkIssuers(t, variant, issuers, mounted(o))
		}
	}
	objects := chartObjects(t, "ha", set("tls.certManager.enabled", true))
	for name, want := range map[string][]any{
		"berth-queue":     {"berth-queue", "berth-queue"},
		"berth-etcd-peer": {"berth-etcd", "berth-etcd-2.berth-etcd"},
		"berth-nats-peer": {"berth-nats", "berth-nats-2.berth-nats"},
		"berth-root":      {"root", "berth-root"},
	} {
		spec := field(find(objects, "Certificate", name), "spec").(object)
		if spec["commonName"] != want[0] || !slices.Contains(spec["dnsNames"].(list), want[1]) {
			t.Errorf("%s is %v and %v, want %v", name, spec["commonName"], spec["dnsNames"], want)
		}
	}
	foreign := object{"name": "corporate", "kind": "ClusterIssuer"}
	objects = chartObjects(t, "ha", set("tls.certManager.enabled", true), set("tls.certManager.issuerRef", foreign))
	if find(objects, "Issuer", "berth-ca") != nil || find(objects, "Issuer", "berth-peers-ca") == nil {
		t.Error("with an issuer of the user's own: want no authority for services, and one for peers")
	}
	got := field(find(objects, "Certificate", "berth-queue"), "spec.issuerRef")
	if fmt.Sprint(got) != fmt.Sprint(foreign) {
		t.Errorf("the issuer is %v, want %v", got, foreign)
	}
}

// issuersOf are the issuers of secrets, by the secret's name.
func issuersOf(objects []*unstructured.Unstructured) map[string]string {
	issuers := map[string]string{}
	for _, o := range objects {
		if o.GetKind() == "Certificate" && field(o.Object, "spec.isCA") == nil {
			issuers[field(o.Object, "spec.secretName").(string)] = field(o.Object, "spec.issuerRef.name").(string)
		}
	}
	return issuers
}

func checkIssuers(t *testing.T, variant string, issuers map[string]string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		want := "berth-ca"
		if strings.HasSuffix(secret, "-peer-tls") {
			want = "berth-peers-ca"
		}
		if issuers[secret] != want {
			t.Errorf("%s: secret %s is of %q, want %s", variant, secret, issuers[secret], want)
		}
	}
}

// mounted are the TLS secrets that an object's pods mount.
func mounted(o *unstructured.Unstructured) (names []string) {
	spec, ok := podSpec(o)
	if !ok {
		return nil
	}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		name, _, _ := unstructured.NestedString(v.(map[string]any), "secret", "secretName")
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}
