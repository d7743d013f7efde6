package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
)

const (
	hpaV1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
	hpaV2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
)

func TestAutoscalersAreServedInBothVersions(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Strict: true})
	const target = `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":3`
	made := do(t, s, http.MethodPost, hpaV1+"?fieldManager=one", `{"metadata":{"name":"a"},"spec":{`+target+`}}`)
	if made.code != http.StatusCreated || made.at("apiVersion") != "autoscaling/v1" || made.at("spec", "targetCPUUtilizationPercentage") != "80" || made.at("spec", "minReplicas") != "1" {
		t.Errorf("created: %s", made.raw)
	}
	if a := get(t, s, hpaV2+"/a"); a.at("apiVersion") != "autoscaling/v2" || !strings.Contains(a.raw, `"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]`) {
		t.Errorf("in v2: %s", a.raw)
	}
	expectOwners(t, "both", do(t, s, http.MethodPatch, hpaV2+"/a?fieldManager=two", `{"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}},"metrics":[
		{"type":"Pods","pods":{"metric":{"name":"qps"},"target":{"type":"AverageValue","averageValue":"5"}}},
		{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`, "Content-Type", mergePatch),
		map[string]string{"one/Update": `"f:maxReplicas":{}`, "two/Update": `"f:metrics":{}`})
	conditions := `{"status":{"currentReplicas":2,"conditions":[{"type":"AbleToScale","status":"True","reason":"r","message":"m"}],
		"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":7,"averageValue":"70m"}}}]}}`
	both := do(t, s, http.MethodPatch, hpaV2+"/a/status", conditions, "Content-Type", mergePatch)
	old := get(t, s, hpaV1+"/a")
	for path, want := range map[string]string{
		"metadata annotations autoscaling.alpha.kubernetes.io/metrics":         `[{"type":"Pods","pods":{"metricName":"qps","targetAverageValue":"5"}}]`,
		"metadata annotations autoscaling.alpha.kubernetes.io/behavior":        `"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}`,
		"metadata annotations autoscaling.alpha.kubernetes.io/current-metrics": `[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"70m"}}]`,
		"metadata annotations autoscaling.alpha.kubernetes.io/conditions":      `"type":"AbleToScale"`,
		"spec targetCPUUtilizationPercentage":                                  "50", "status currentCPUUtilizationPercentage": "7", "status currentReplicas": "2",
	} {
		if got := old.at(strings.Fields(path)...); !strings.Contains(got, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	// Written back in v1, nothing is lost.
	if again := do(t, s, http.MethodPut, hpaV1+"/a", old.raw); again.at("metadata", "resourceVersion") != both.at("metadata", "resourceVersion") {
		t.Errorf("written back: %s\nwas %s", again.raw, old.raw)
	}
	applied := do(t, s, http.MethodPatch, hpaV1+"/a?fieldManager=three&force=true",
		`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","spec":{"targetCPUUtilizationPercentage":60}}`, "Content-Type", applyPatch)
	if got := owners(t, applied)["three/Apply"]; got != `{"f:spec":{"f:targetCPUUtilizationPercentage":{}}}` || applied.at("spec", "targetCPUUtilizationPercentage") != "60" {
		t.Errorf("applied: %s", applied.raw)
	}
	if list := get(t, s, hpaV1); !strings.Contains(list.raw, `"targetCPUUtilizationPercentage":60`) || list.at("apiVersion") != "autoscaling/v1" {
		t.Errorf("list: %s", list.raw)
	}
	w := watching(t, s, hpaV1+"?watch=1&resourceVersion="+version(s))
	do(t, s, http.MethodDelete, hpaV2+"/a", "")
	w.expect(t, "DELETED a "+version(s))
}
