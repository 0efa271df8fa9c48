"""`python -m benchmarks.core`: the same as `sigmadmm bench`."""

from sigmadmm.bench import main

if __name__ == "__main__":
    main()
