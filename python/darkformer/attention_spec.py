"""Which attention a layer uses, and with which options: an entry of config.json's "darkformer.layers"."""
# SPDX-License-Identifier: Apache-2.0
import dataclasses

_FACTOR = ("dark", "aderf", "hedgehog")
_LOG_WEIGHTS = ("importance", "oprf", "sderf", "aderf")
_PLAIN = ("exact", "window", "constant", "random")  # no features, no options but the window's
KINDS = ("exact", "performer", "dark", "lfk", "importance", "oprf", "sderf", "aderf", "hedgehog", "window",
         "constant", "random")
PLACEMENTS = ("kv-head", "query-head", "layer")
ROPES = ("after", "before")
NEAR_KERNELS = ("factor", "model")
FAR_KEYS = ("beyond", "all")


@dataclasses.dataclass(frozen=True)
class AttentionSpec:
    """Kind and options of a layer's attention; the fields mean something for the kinds with features only."""
    attention: str = "exact"
    features: int = 0
    rank: int = 0
    placement: str = "kv-head"
    rope: str = "after"
    window: int = 0
    sinks: int = 0
    near_kernel: str = "factor"
    far_keys: str = "beyond"
    orthogonal: bool = True
    centre: bool = False
    gate: bool = False
    learned_draws: bool = False
    own_key_factor: bool = False
    folded: bool = False

    @staticmethod
    def make(attention, head_dim, **options):
        """A spec from the options that were said; features and rank default to the head size, near_kernel to what
        `darkformer convert` takes: the model's where there is a factor after the rotation and a window or sinks."""
        known = [field.name for field in dataclasses.fields(AttentionSpec)][1:]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise ValueError(f"unknown option {unknown[0]}; wanted {', '.join(known)}")
        if attention not in _PLAIN:
            options = {"features": head_dim, "rank": head_dim,
                       **{name: value for name, value in options.items() if value is not None}}
            if attention == "hedgehog":
                options.setdefault("near_kernel", "model")
            near = options.get("window", 0) or options.get("sinks", 0)
            if attention in _FACTOR and near and options.get("rope", "after") == "after":
                options.setdefault("near_kernel", "model")
        return AttentionSpec(attention, **options)

    @property
    def has_features(self):
        """Are there features?"""
        return self.attention not in _PLAIN

    @property
    def has_draws(self):
        """Are the features random?"""
        return self.has_features and self.attention != "hedgehog"

    @property
    def learns_draws(self):
        """Are the draws learned, always (lfk) or here?"""
        return self.attention == "lfk" or self.learned_draws

    @property
    def has_factor(self):
        """Is there an M?"""
        return self.attention in _FACTOR

    @property
    def has_key_factor(self):
        """Have the keys an M of their own?"""
        return self.attention in ("aderf", "hedgehog") or self.own_key_factor

    @property
    def factor_rows(self):
        """Rows of the factors."""
        return self.features // 2 if self.attention == "hedgehog" else self.rank

    @property
    def has_log_weights(self):
        """Are the draws weighted?"""
        return self.attention in _LOG_WEIGHTS

    def check(self, head_dim, where):
        """ValueError naming `where` unless the options fit each other and a head of this size."""
        def wanted(good, text):
            if not good:
                raise ValueError(f"{where}: {text}")

        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            wanted(type(value) is field.type, f"\"{field.name}\" is {value!r}; wanted {field.type.__name__}")
        for name, names in (("attention", KINDS), ("placement", PLACEMENTS), ("rope", ROPES), ("near_kernel", NEAR_KERNELS),
                            ("far_keys", FAR_KEYS)):
            value = getattr(self, name)
            wanted(value in names, f"\"{name}\" is {value}; wanted one of {', '.join(names)}")
        if not self.has_features:
            window = self.window if self.attention == "window" else 0
            wanted(self == AttentionSpec(self.attention, window=window), f"attention {self.attention} takes no "
                   + ("option but \"window\"" if window else "options"))
            wanted(window > 0 or self.attention != "window", f"\"window\" is {self.window}; wanted 1 or more")
            return
        wanted(self.features >= 1, f"\"features\" is {self.features}; wanted 1 or more")
        wanted(1 <= self.rank <= head_dim, f"\"rank\" is {self.rank}; wanted 1 to {head_dim}")
        wanted(self.window >= 0 and self.sinks >= 0, "\"window\" and \"sinks\" are 0 or more")
        wanted(self.rank == head_dim or self.attention == "dark",
               f"\"rank\" is {self.rank}, but attention {self.attention} has no factor of lower rank: wanted {head_dim}")
        wanted(not self.learned_draws or (self.has_draws and not self.has_log_weights),
               f"\"learned_draws\": attention {self.attention} has no draws that could be learned")
        wanted(not self.own_key_factor or self.attention == "dark",
               f"\"own_key_factor\": attention {self.attention} has no factor that keys could do without")
        wanted(not self.gate or self.window > 0, "\"gate\" needs a window")
        wanted(self.rope == "after" or (self.rank == head_dim and self.placement != "query-head"),
               "\"rope\": \"before\" needs the full rank and one M for the query heads of a key head")
        wanted(self.rope == "after" or not self.has_key_factor,
               f"\"rope\": \"before\": a factor of the keys' own (attention {self.attention}) is fitted to rotated queries and keys")
        if self.attention == "hedgehog":
            wanted(self.features % 2 == 0, f"\"features\" is {self.features}; attention hedgehog has as many of "
                   "softmax(W x) as of softmax(-W x): wanted an even number")
            wanted(not self.centre and self.orthogonal, "attention hedgehog has neither centres nor draws")
            wanted(self.near_kernel == "model", "\"near_kernel\" is factor; attention hedgehog has near keys by the "
                   "model's own only")
        wanted(self.near_kernel == "factor" or self.rope == "after",
               "\"near_kernel\": \"model\" needs queries and keys as the model has them, and with \"rope\": \"before\" "
               "the factor has changed them before the rotation")
        wanted(self.near_kernel == "factor" or not self.folded or not (self.window or self.sinks),
               "\"near_kernel\": \"model\": a factor is folded into the projections, so that the model's own kernel "
               "is gone")

    @staticmethod
    def from_json(entry, head_dim, where):
        """The spec of an entry. A missing rank is the head size; unknown keys and values are errors."""
        if not isinstance(entry, dict) or "attention" not in entry:
            raise ValueError(f"{where}: must be an object with \"attention\"")
        known = {field.name: field.type for field in dataclasses.fields(AttentionSpec)}
        for key, value in entry.items():
            if key not in known:
                raise ValueError(f"{where}: unknown key \"{key}\"; wanted {', '.join(known)}")
            if type(value) is not known[key]:
                raise ValueError(f"{where}: \"{key}\" is {value!r}; wanted {known[key].__name__}")
        spec = AttentionSpec(**entry)
        if spec.has_features and "rank" not in entry:
            spec = dataclasses.replace(spec, rank=head_dim)
        if spec.attention == "hedgehog" and "near_kernel" not in entry:
            spec = dataclasses.replace(spec, near_kernel="model")
        spec.check(head_dim, where)
        return spec

    def to_json(self):
        """The entry of a spec, as the program writes it."""
        if not self.has_features:
            return {"attention": self.attention, **({"window": self.window} if self.attention == "window" else {})}
        entry = dataclasses.asdict(self)
        for key, usual in (("near_kernel", "factor"), ("far_keys", "beyond")):
            if entry[key] == usual:
                del entry[key]
        return {key: value for key, value in entry.items() if type(value) is not bool or value or key == "orthogonal"}
