"""The 51 features of fox51-v1 for a million bars with pandas, as one would write them there. Seconds, median of 3."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
import time

import numpy as np
import pandas as pd

N = 1_000_000


def bars():
    rng = np.random.default_rng(1)
    step = lambda: 0.25 * np.round(8 * (rng.random(N) - 0.5))
    close = np.maximum(4800 + np.cumsum(step()), 1000)
    open_ = np.concatenate([[4800.0], close[:-1]])
    high = np.maximum(open_, close) + np.abs(step())
    low = np.minimum(open_, close) - np.abs(step())
    volume = np.floor(1000 * rng.random(N))
    start = 1_600_000_000_000_000_000 + 60_000_000_000 * np.arange(N)
    return pd.DataFrame(dict(s=start, o=open_, h=high, l=low, c=close, v=volume))


def features(b):
    o, h, l, c, v, s = b.o, b.h, b.l, b.c, b.v, b.s
    lo, lh, ll, lc = np.log(o), np.log(h), np.log(l), np.log(c)
    r = lc.diff()
    r2 = r * r
    mean = lambda x, n: x.rolling(n).mean()
    total = lambda x, n: x.rolling(n).sum()
    vol = {n: np.sqrt(mean(r2, n)) for n in (5, 10, 20, 60)}
    avg = {n: mean(c, n) for n in (5, 10, 20, 60)}
    top = {n: h.rolling(n).max() for n in (14, 20, 60)}
    bottom = {n: l.rolling(n).min() for n in (14, 20, 60)}
    body, rng = lc - lo, lh - ll
    p = (h + l + c) / 3
    f = {f"return_{n}": lc.diff(n) for n in (1, 2, 3, 5, 10, 20, 60)}
    f["range"], f["body"] = rng, body
    f["upper_shadow"] = lh - np.maximum(lo, lc)
    f["lower_shadow"] = np.minimum(lo, lc) - ll
    f["close_location"] = (c - l) / (h - l) - 0.5
    f["true_range_14"] = mean(np.maximum(lh, lc.shift()) - np.minimum(ll, lc.shift()), 14)
    f["parkinson_20"] = np.sqrt(mean(rng * rng, 20) / (4 * np.log(2)))
    f["garman_klass_20"] = np.sqrt(mean(0.5 * rng * rng - (2 * np.log(2) - 1) * body * body, 20).clip(lower=0))
    f["rogers_satchell_20"] = np.sqrt(mean((lh - lc) * (lh - lo) + (ll - lc) * (ll - lo), 20).clip(lower=0))
    f |= {f"volatility_{n}": x for n, x in vol.items()}
    f["volatility_ratio"] = vol[5] / vol[60]
    f["downside_20"] = np.sqrt(mean(np.minimum(r, 0) ** 2, 20))
    f["skewness_20"] = mean(r**3, 20) / vol[20] ** 3
    f["volume_change"] = np.log1p(v).diff()
    f["volume_surprise"] = np.log((1 + v) / (1 + mean(v, 20).shift()))
    f["volume_trend"] = np.log((1 + mean(v, 5)) / (1 + mean(v, 20)))
    f["volume_spread_20"] = np.log1p(v).rolling(20).std(ddof=0)
    f["signed_volume_20"] = total(np.sign(r) * v, 20) / total(v, 20)
    f["vwap_distance_20"] = lc - np.log(total(p * v, 20) / total(v, 20))
    f |= {f"distance_{n}": np.log(c / x) for n, x in avg.items()}
    f["z_score_20"] = (lc - mean(lc, 20)) / lc.rolling(20).std(ddof=0)
    f["relative_strength_14"] = total(r.clip(lower=0), 14) / total(r.abs(), 14) - 0.5
    f |= {f"channel_{n}": (c - bottom[n]) / (top[n] - bottom[n]) - 0.5 for n in (14, 20, 60)}
    f["below_high_60"], f["above_low_60"] = lc - np.log(top[60]), lc - np.log(bottom[60])
    f["trend_5_20"], f["trend_20_60"] = np.log(avg[5] / avg[20]), np.log(avg[20] / avg[60])
    f["efficiency_20"] = lc.diff(20).abs() / total(r.abs(), 20)
    f["autocorrelation_20"] = total(r * r.shift(), 20) / total(r2, 20)
    f["up_share_20"] = mean((r > 0).astype(float), 20) - 0.5
    f["gap"] = lo - lc.shift()
    f["elapsed"] = np.log(s.diff() / 60e9)
    end = s + 60_000_000_000
    day, week = 86_400_000_000_000, 7 * 86_400_000_000_000
    x = 2 * np.pi * (end % day) / day
    y = 2 * np.pi * ((end + 3 * day) % week) / week
    f["day_sin"], f["day_cos"], f["week_sin"], f["week_cos"] = np.sin(x), np.cos(x), np.sin(y), np.cos(y)
    assert len(f) == 51
    return np.ascontiguousarray(np.column_stack([f[k] for k in f]), dtype=np.float32)


b = bars()
times = []
for _ in range(3):
    begin = time.perf_counter()
    matrix = features(b)
    times.append(time.perf_counter() - begin)
print(f"pandas {pd.__version__}: {sorted(times)[1]:.3f} s for {N} bars of {matrix.shape[1]} features")
