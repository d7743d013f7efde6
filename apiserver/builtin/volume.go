package builtin

import (
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes validates the volumes of a pod and returns the names of the valid ones.
func (p *problems) volumes(volumes []corev1.Volume, at *field.Path) map[string]bool {
	valid := map[string]bool{}
	for i := range volumes {
		v, at := &volumes[i], at.Index(i)
		before := len(p.list)
		p.volumeSource(&v.VolumeSource, at)
		p.requiredLabel(at.Child("name"), v.Name)
		if valid[v.Name] {
			p.duplicate(at.Child("name"), v.Name)
		}
		if len(p.list) == before {
			valid[v.Name] = true
		}
	}
	return valid
}

// volumeSource checks that a volume has one type, and the types that are used most.
func (p *problems) volumeSource(s *corev1.VolumeSource, at *field.Path) {
	found := false
	// The Go type has a pointer for each volume type.
	for i, v := 0, reflect.ValueOf(s).Elem(); i < v.NumField(); i++ {
		if v.Field(i).IsNil() {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if found {
			p.forbidden(at.Child(name), "may not specify more than 1 volume type")
			continue
		}
		found = true
		p.volumeType(s, at.Child(name))
	}
	if !found {
		p.required(at, "must specify a volume type")
	}
}

// volumeType validates the first type of a volume.
func (p *problems) volumeType(s *corev1.VolumeSource, at *field.Path) {
	switch {
	case s.HostPath != nil:
		if s.HostPath.Path == "" {
			p.required(at.Child("path"), "")
			return
		}
		p.noBacksteps(at.Child("path"), s.HostPath.Path)
		if t := s.HostPath.Type; t != nil {
			emptyOr(p, at.Child("type"), *t, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
				corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
		}
	case s.EmptyDir != nil:
		if limit := s.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
			p.forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}
	case s.Secret != nil:
		p.need(at.Child("secretName"), s.Secret.SecretName)
		p.mode(at.Child("defaultMode"), s.Secret.DefaultMode)
		p.items(s.Secret.Items, at)
	case s.PersistentVolumeClaim != nil:
		p.need(at.Child("claimName"), s.PersistentVolumeClaim.ClaimName)
	case s.DownwardAPI != nil:
		p.mode(at.Child("defaultMode"), s.DownwardAPI.DefaultMode)
		p.downward(s.DownwardAPI.Items, at)
	case s.ConfigMap != nil:
		p.need(at.Child("name"), s.ConfigMap.Name)
		p.mode(at.Child("defaultMode"), s.ConfigMap.DefaultMode)
		p.items(s.ConfigMap.Items, at)
	case s.Projected != nil:
		p.mode(at.Child("defaultMode"), s.Projected.DefaultMode)
		p.projections(s.Projected.Sources, at)
	case s.CSI != nil:
		p.needValid(at.Child("driver"), s.CSI.Driver, func(name string) []string { return utilvalidation.IsDNS1123Subdomain(strings.ToLower(name)) })
	}
}

func (p *problems) mode(at *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		p.invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}

// items validates the files of a ConfigMap or Secret.
func (p *problems) items(items []corev1.KeyToPath, at *field.Path) {
	for i, item := range items {
		at := at.Child("items").Index(i)
		p.need(at.Child("key"), item.Key)
		p.filePath(at.Child("path"), item.Path)
		p.mode(at.Child("mode"), item.Mode)
	}
}

// filePath validates the path of a file below a volume.
func (p *problems) filePath(at *field.Path, file string) {
	p.need(at, file)
	p.descending(at, file)
	if strings.HasPrefix(file, "..") && !strings.HasPrefix(file, "../") {
		p.invalid(at, file, "must not start with '..'")
	}
}

// descending checks a path that must stay below its start.
func (p *problems) descending(at *field.Path, file string) {
	if path.IsAbs(file) {
		p.invalid(at, file, "must be a relative path")
	}
	p.noBacksteps(at, file)
}

func (p *problems) noBacksteps(at *field.Path, file string) {
	if slices.Contains(strings.Split(file, "/"), "..") {
		p.invalid(at, file, "must not contain '..'")
	}
}

// downward validates files of the downward API.
func (p *problems) downward(files []corev1.DownwardAPIVolumeFile, at *field.Path) {
	for _, f := range files {
		p.filePath(at.Child("path"), f.Path)
		switch {
		case f.FieldRef != nil:
			p.fieldRef(f.FieldRef, fileFields, at.Child("fieldRef"))
			if f.ResourceFieldRef != nil {
				p.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
			}
		case f.ResourceFieldRef != nil:
			p.need(at.Child("resourceFieldRef", "containerName"), f.ResourceFieldRef.ContainerName)
		default:
			p.required(at, "one of fieldRef and resourceFieldRef is required")
		}
		p.mode(at.Child("mode"), f.Mode)
	}
}

func (p *problems) projections(sources []corev1.VolumeProjection, at *field.Path) {
	for i, s := range sources {
		index := at.Child("sources").Index(i)
		count := 0
		if s.Secret != nil {
			count++
			p.need(index.Child("secret", "name"), s.Secret.Name)
			p.items(s.Secret.Items, index.Child("secret"))
		}
		if s.ConfigMap != nil {
			count++
			p.need(index.Child("configMap", "name"), s.ConfigMap.Name)
			p.items(s.ConfigMap.Items, index.Child("configMap"))
		}
		if s.DownwardAPI != nil {
			count++
			p.downward(s.DownwardAPI.Items, index.Child("downwardAPI"))
		}
		if token := s.ServiceAccountToken; token != nil {
			count++
			if seconds := valueOf(token.ExpirationSeconds); seconds < 10*60 {
				p.invalid(index.Child("serviceAccountToken", "expirationSeconds"), seconds, "may not specify a duration less than 10 minutes")
			}
			p.filePath(at.Child("path"), token.Path)
		}
		if count > 1 {
			p.forbidden(index, "may not specify more than 1 volume type per source")
		}
	}
}

// mounts validates the volume mounts and devices of a container.
func (p *problems) mounts(c *corev1.Container, volumes map[string]bool, at *field.Path) {
	paths := map[string]bool{}
	for i, m := range c.VolumeMounts {
		mounts := at.Child("volumeMounts")
		at := mounts.Index(i)
		p.need(at.Child("name"), m.Name)
		if !volumes[m.Name] {
			p.add(field.NotFound(at.Child("name"), m.Name))
		}
		p.need(at.Child("mountPath"), m.MountPath)
		if paths[m.MountPath] {
			p.invalid(at.Child("mountPath"), m.MountPath, "must be unique")
		}
		paths[m.MountPath] = true
		p.descending(mounts.Child("subPath"), m.SubPath)
		if m.SubPathExpr != "" && m.SubPath != "" {
			p.invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		p.descending(mounts.Child("subPathExpr"), m.SubPathExpr)
	}
	for i, d := range c.VolumeDevices {
		at := at.Child("volumeDevices").Index(i)
		p.need(at.Child("name"), d.Name)
		p.need(at.Child("devicePath"), d.DevicePath)
		if !volumes[d.Name] {
			p.add(field.NotFound(at.Child("name"), d.Name))
		}
	}
}
