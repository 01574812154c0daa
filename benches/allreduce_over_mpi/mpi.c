/* All-reduces of unsigned longs by MPI: rank 0 prints the median of blocks, in ns for each, a line for each size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The name of the side, then three numbers for each size: bytes, blocks, and all-reduces in a block. */
int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int arg = 2; arg + 2 < argc; arg += 3) {
        int count = atoi(argv[arg]) / 8, blocks = atoi(argv[arg + 1]), each = atoi(argv[arg + 2]);
        unsigned long *in = malloc(count * 8), *out = malloc(count * 8);
        double *times = malloc(blocks * sizeof *times);
        for (int at = 0; at < count; at++) in[at] = rank + 1 + at;
        for (int block = -1; block < blocks; block++) {
            double begin = MPI_Wtime();
            for (int i = 0; i < each; i++) MPI_Allreduce(in, out, count, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
            if (block >= 0) times[block] = (MPI_Wtime() - begin) * 1e9 / each;
        }
        for (int at = 0; at < count; at++)
            if (out[at] != (unsigned long)ranks * (ranks + 1) / 2 + (unsigned long)ranks * at) MPI_Abort(MPI_COMM_WORLD, 1);
        qsort(times, blocks, sizeof *times, ascending);
        if (rank == 0) printf("median %s %.1f\n", argv[arg], times[blocks / 2]);
        free(in), free(out), free(times);
    }
    MPI_Finalize();
    return 0;
}
